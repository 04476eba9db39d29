import numpy as np


class IoU:
    def __init__(self, classes):
        self.classes = classes
        self.intersection = np.zeros(classes)
        self.union = np.zeros(classes)

    def update(self, predicted, truth):
        for c in range(self.classes):
            p, t = predicted == c, truth == c
            self.intersection[c] += np.logical_and(p, t).sum()
            self.union[c] += np.logical_or(p, t).sum()

    def compute(self):
        iou = self.intersection / np.maximum(self.union, 1)
        return {"miou": float(iou.mean()), "iou": iou.round(4).tolist()}
