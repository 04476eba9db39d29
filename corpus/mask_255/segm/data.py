import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

MEAN = (0.41, 0.43, 0.39)
STD = (0.21, 0.20, 0.22)


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, image, mask):
        for transform in self.transforms:
            image, mask = transform(image, mask)
        return image, mask


class RandomFlip:
    def __init__(self, p):
        self.p = p

    def __call__(self, image, mask):
        if torch.rand(1).item() < self.p:
            image, mask = image.flip(-1), mask.flip(-1)
        if torch.rand(1).item() < self.p:
            image, mask = image.flip(-2), mask.flip(-2)
        return image, mask


class Jitter:
    def __init__(self, strength):
        self.strength = strength

    def __call__(self, image, mask):
        gain = 1.0 + self.strength * (2.0 * torch.rand(1).item() - 1.0)
        offset = 0.5 * self.strength * torch.randn(image.shape[0], 1, 1)
        return (image * gain + offset).clamp(0.0, 1.0), mask


class Normalize:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, image, mask):
        return (image - self.mean) / self.std, mask


class Transformed(Dataset):
    def __init__(self, dataset, transform):
        self.dataset = dataset
        self.transform = transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.transform(*self.dataset[index])


def load_tiles(root):
    images = torch.from_numpy(np.load(os.path.join(root, "tiles.npy")))
    masks = torch.from_numpy(np.load(os.path.join(root, "masks.npy")))
    assert len(images) == len(masks)
    return TensorDataset(images.float() / 255.0, masks.long())


def build_loaders(root, batch_size):
    tiles = load_tiles(root)
    held_out = list(range(0, len(tiles), 6))
    kept = [i for i in range(len(tiles)) if i not in held_out]
    train_set, val_set = Subset(tiles, kept), Subset(tiles, held_out)
    normalize = Normalize(MEAN, STD)
    train_set = Transformed(train_set, Compose(RandomFlip(0.5), Jitter(0.1), normalize))
    val_set = Transformed(val_set, normalize)
    train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, pin_memory=True)
    val_loader = DataLoader(val_set, batch_size=batch_size, pin_memory=True)
    return train_loader, val_loader
