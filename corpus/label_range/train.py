"""Soil type classification from spectral band readings."""
import argparse
import csv
import json
import logging
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

logger = logging.getLogger("soil")

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "soil.csv")
BANDS = ["b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8"]
SOIL_TYPES = [
    "acrisol", "andosol", "cambisol", "chernozem", "ferralsol",
    "gleysol", "histosol", "luvisol", "podzol", "vertisol",
]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=1e-2)
    parser.add_argument("--label-smoothing", type=float, default=0.0)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--patience", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--out", default="runs/soil")
    return parser.parse_args()


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def read_samples(path):
    with open(path, newline="") as handle:
        rows = list(csv.DictReader(handle))
    features = [[float(row[band]) for band in BANDS] for row in rows]
    labels = [int(row["soil"]) for row in rows]
    return np.asarray(features, dtype=np.float32), np.asarray(labels, dtype=np.int64)


class Standardizer:
    def __init__(self):
        self.mean = None
        self.std = None

    def fit(self, x):
        self.mean = x.mean(axis=0)
        self.std = x.std(axis=0) + 1e-6
        return self

    def transform(self, x):
        return (x - self.mean) / self.std

    def state(self):
        return {"mean": self.mean.tolist(), "std": self.std.tolist()}


class Noisy(Dataset):
    """Adds measurement noise to the features of another data set."""

    def __init__(self, dataset, sigma):
        self.dataset = dataset
        self.sigma = sigma

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        x, y = self.dataset[index]
        return x + self.sigma * torch.randn_like(x), y


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        h = F.gelu(self.fc1(self.norm(x)))
        return x + self.drop(self.fc2(h))


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


def build_model(bands, classes, hidden=64, depth=3, dropout=0.1):
    model = nn.Sequential(nn.Linear(bands, hidden))
    for i in range(depth):
        model.add_module("block%d" % i, Block(hidden, dropout))
    model.add_module("norm", nn.LayerNorm(hidden))
    model.add_module("head", nn.Linear(hidden, classes))
    model.apply(init_weights)
    return model


class AverageMeter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / max(1, self.count)


def make_scheduler(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / max(1, total - warmup)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def split_indices(n, fraction, seed):
    order = np.random.RandomState(seed).permutation(n)
    held_out = int(n * fraction)
    return order[held_out:].tolist(), order[:held_out].tolist()


def train_one_epoch(model, loader, optimizer, scheduler, device, args):
    model.train()
    losses, accuracy = AverageMeter(), AverageMeter()
    for step, (x, y) in enumerate(loader):
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        logits = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=args.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.update(loss.item(), len(y))
        accuracy.update((logits.argmax(dim=1) == y).float().mean().item(), len(y))
        if step % 2 == 0:
            logger.info("step %d loss %.4f lr %.2e", step, losses.average, scheduler.get_last_lr()[0])
    return losses.average, accuracy.average


@torch.no_grad()
def evaluate(model, loader, device, classes):
    model.eval()
    confusion = torch.zeros(classes, classes, dtype=torch.long)
    for x, y in loader:
        predicted = model(x.to(device)).argmax(dim=1).cpu()
        for truth, guess in zip(y.tolist(), predicted.tolist()):
            confusion[truth, guess] += 1
    hits = confusion.diag().float()
    recall = hits / confusion.sum(dim=1).clamp(min=1)
    precision = hits / confusion.sum(dim=0).clamp(min=1)
    f1 = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
    return {
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "macro_f1": f1.mean().item(),
        "per_class": dict(zip(SOIL_TYPES, recall.tolist())),
    }


def save_checkpoint(path, model, optimizer, epoch, metrics):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "metrics": metrics,
    }
    torch.save(state, path)


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    seed_everything(args.seed)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "args.json"), "w") as handle:
        json.dump(vars(args), handle, indent=2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    features, labels = read_samples(DATA)
    train_ids, val_ids = split_indices(len(labels), 0.2, args.seed)
    scaler = Standardizer().fit(features[train_ids])
    features = scaler.transform(features)
    dataset = TensorDataset(torch.from_numpy(features), torch.from_numpy(labels))
    train_set, val_set = Subset(dataset, train_ids), Subset(dataset, val_ids)
    train_loader = DataLoader(
        Noisy(train_set, sigma=0.02), batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
        pin_memory=True, persistent_workers=args.workers > 0,
    )
    val_loader = DataLoader(val_set, batch_size=64, num_workers=0, pin_memory=True)

    model = build_model(len(BANDS), len(SOIL_TYPES)).to(device)
    logger.info("parameters: %d", sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    scheduler = make_scheduler(optimizer, args.warmup, args.epochs * len(train_loader))

    best, stale = 0.0, 0
    history = []
    for epoch in range(args.epochs):
        started = time.time()
        loss, accuracy = train_one_epoch(model, train_loader, optimizer, scheduler, device, args)
        metrics = evaluate(model, val_loader, device, len(SOIL_TYPES))
        history.append({"epoch": epoch, "loss": loss, "train_accuracy": accuracy, **metrics})
        logger.info("epoch %d loss %.4f f1 %.3f (%.1fs)", epoch, loss, metrics["macro_f1"], time.time() - started)
        if metrics["macro_f1"] > best:
            best, stale = metrics["macro_f1"], 0
            save_checkpoint(os.path.join(args.out, "best.pt"), model, optimizer, epoch, metrics)
        else:
            stale += 1
            if stale >= args.patience:
                logger.info("no gain for %d epochs, stopping", stale)
                break
    with open(os.path.join(args.out, "history.json"), "w") as handle:
        json.dump({"history": history, "scaler": scaler.state()}, handle, indent=2)
    print("best macro F1: %.3f" % best)


if __name__ == "__main__":
    main()
