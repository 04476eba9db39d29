import random

import numpy as np
import torch


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def describe(model):
    lines = ["%-28s %s" % (name, tuple(p.shape)) for name, p in model.named_parameters()]
    lines.append("total %d" % sum(p.numel() for p in model.parameters()))
    return "\n".join(lines)


class RunLog:
    def __init__(self, path):
        self.handle = open(path, "w")
        self.handle.write("step\tsplit\tloss\n")
        self.step = 0

    def write(self, split, value):
        self.step += split == "train"
        self.handle.write("%d\t%s\t%.5f\n" % (self.step, split, value))

    def close(self):
        self.handle.close()
