"""Cloud segmentation on small satellite tiles."""

__version__ = "0.3.1"
