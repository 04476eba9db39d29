import torch.nn as nn
import torch.nn.functional as F


def conv_block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class Up(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.reduce = nn.Conv2d(width, width, 1)
        self.block = conv_block(width, width)

    def forward(self, x, skip):
        x = F.interpolate(self.reduce(x), size=skip.shape[-2:], mode="nearest")
        return self.block(x + skip)


class UNet(nn.Module):
    def __init__(self, channels, classes, width):
        super().__init__()
        self.stem = conv_block(channels, width)
        self.down1 = conv_block(width, width)
        self.down2 = conv_block(width, width)
        self.up2 = Up(width)
        self.up1 = Up(width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x = self.stem(x)
        full = x
        x = self.down1(F.max_pool2d(x, 2))
        half = x
        x = self.down2(F.max_pool2d(x, 2))
        x = self.up2(x, half)
        x = self.up1(x, full)
        return self.head(x)


def count_parameters(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
