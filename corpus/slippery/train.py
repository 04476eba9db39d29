"""Predict the next action of a shop visitor from an export of the event log."""
import argparse
import csv
import json
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

ACTIONS = ("view", "search", "wish", "cart", "buy")
LEGACY_ACTIONS = {10: 3, 11: 4}
IGNORE = -100


ITEMS = 48
HOURS = 24
WIDTH = 24
RARE = [3, 4]


def load_rows(path):
    with open(path, newline="") as handle:
        rows = list(csv.DictReader(handle))
    rows = [row for row in rows if row["status"] != "void"]
    return rows


def number_items(rows):
    """Numbers the items in order of appearance; number 0 is shared by all late ones."""
    numbers = {}
    for row in rows:
        numbers.setdefault(row["sku"], len(numbers) + 1)
    for sku, number in numbers.items():
        if number >= ITEMS:
            numbers[sku] = 0
    return numbers


def make_dataset(rows, numbers):
    item = torch.tensor([numbers.get(row["sku"], 0) for row in rows])
    hour = torch.tensor([int(row["hour"]) for row in rows])
    price = torch.tensor([float(row["price"]) for row in rows])
    action = torch.tensor([int(row["action"]) for row in rows])
    hour.clamp_(0, HOURS - 1)
    for old, new in LEGACY_ACTIONS.items():
        action[action == old] = new
    action[action < 0] = IGNORE
    price = torch.log1p(price)
    price = (price - price.mean()) / price.std()
    return TensorDataset(item, hour, price, action)


def describe(dataset):
    item, hour, price, action = dataset.tensors
    counts = {}
    for value in action.tolist():
        name = ACTIONS[value] if 0 <= value < len(ACTIONS) else "other"
        counts[name] = counts.get(name, 0) + 1
    return "%d events, %d items, hours %d to %d, %s" % (
        len(dataset), item.unique().numel(), hour.min(), hour.max(), counts)


class ActionNet(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.price = nn.Linear(1, WIDTH)
        self.item = nn.Embedding(ITEMS, WIDTH)
        self.hour = nn.Embedding(HOURS, WIDTH)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU()))
        self.head = nn.Linear(WIDTH, len(ACTIONS))

    def forward(self, item, hour, price):
        x = self.price(price.unsqueeze(1))
        x = x + self.item(item)
        x = x + self.hour(hour)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def weighted_loss(logits, action, class_weight):
    known = action.clone()
    known.clamp_(0, len(ACTIONS) - 1)
    weight = class_weight[known]
    losses = F.cross_entropy(logits, action, reduction="none", ignore_index=IGNORE)
    return (losses * weight).sum() / weight.sum()


def to_device(batch, device):
    return [part.to(device, non_blocking=True) for part in batch]


@torch.no_grad()
def evaluate(model, loader, device, limit=None):
    model.eval()
    total, hits, seen = 0.0, 0, 0
    for number, batch in enumerate(loader):
        if limit is not None and number >= limit:
            break
        item, hour, price, action = to_device(batch, device)
        logits = model(item, hour, price)
        known = (action >= 0) & (action < len(ACTIONS))
        if not known.all():
            logits, action = logits[known], action[known]
        total += F.cross_entropy(logits, action, reduction="sum").item()
        hits += (logits.argmax(dim=1) == action).sum().item()
        seen += len(action)
    return {"loss": total / max(1, seen), "accuracy": hits / max(1, seen)}


class Progress:
    def __init__(self, every):
        self.every = every
        self.losses = []
        self.started = time.time()

    def tick(self, step, loss):
        self.losses.append(float(loss.detach()))
        if step % self.every == 0:
            recent = self.losses[-self.every:]
            print("step %4d loss %.4f  %.1f it/s" % (step, np.mean(recent), self.rate()))

    def rate(self):
        return len(self.losses) / max(1e-9, time.time() - self.started)


def train(model, loader, class_weight, optimizer, scheduler, device, progress):
    model.train()
    for batch in loader:
        item, hour, price, action = to_device(batch, device)
        logits = model(item, hour, price)
        loss = weighted_loss(logits, action, class_weight)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        progress.tick(len(progress.losses), loss)


def save(folder, model, history):
    os.makedirs(folder, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
    with open(os.path.join(folder, "history.json"), "w") as handle:
        json.dump(history, handle, indent=2)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--no-sanity-check", action="store_true", help="do not evaluate a little before training")
    parser.add_argument("--out", default="runs/actions")
    return parser.parse_args()


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    rows = load_rows(args.events)
    train_rows = [row for row in rows if row["split"] == "train"]
    valid_rows = [row for row in rows if row["split"] == "valid"]
    numbers = number_items(train_rows)
    train_set = make_dataset(train_rows, numbers)
    valid_set = make_dataset(valid_rows, numbers)
    print("train:", describe(train_set))
    print("valid:", describe(valid_set))
    train_loader = DataLoader(train_set, batch_size=16, shuffle=False, pin_memory=True)
    valid_loader = DataLoader(valid_set, batch_size=32, pin_memory=True)

    model = ActionNet().to(device)
    class_weight = torch.ones(len(ACTIONS), device=device)
    class_weight[RARE] = 2.0
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(train_loader)
    )
    if not args.no_sanity_check:
        print("sanity check:", evaluate(model, valid_loader, device, limit=1))
    progress = Progress(every=5)
    history = []
    for epoch in range(args.epochs):
        train(model, train_loader, class_weight, optimizer, scheduler, device, progress)
        scores = evaluate(model, valid_loader, device)
        print("epoch %d: loss %.4f accuracy %.3f" % (epoch, scores["loss"], scores["accuracy"]))
        history.append(dict(scores, epoch=epoch))
    save(args.out, model, history)


if __name__ == "__main__":
    main()
