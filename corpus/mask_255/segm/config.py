import argparse

CLASSES = ("clear", "thin cloud", "thick cloud", "shadow")
CLASS_WEIGHTS = (0.5, 1.0, 1.0, 2.0)
ROOT = "data"
WIDTH = 8
DICE_WEIGHT = 0.5


def parse_args(argv=None):
    parser = argparse.ArgumentParser("segm.train")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--val-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--out", default="runs/segm")
    return parser.parse_args(argv)
