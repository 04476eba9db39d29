"""Click and conversion model with a delayed-feedback branch, on simulated impressions."""
import argparse
import collections
import csv
import math
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

FIELDS = collections.OrderedDict([("user_segment", 30), ("campaign", 20), ("placement", 8), ("hour", 24)])
DENSE = 4
ROWS = 512
BATCH_SIZE = 64


def simulate_day(day, rows, rng):
    sparse = np.stack([rng.integers(0, size, rows) for size in FIELDS.values()], axis=1)
    dense = rng.normal(size=(rows, DENSE)).astype(np.float32)
    targets = np.zeros((rows, 3), dtype=np.float32)
    appeal = 0.8 * dense[:, 0] - 0.4 * dense[:, 1] + 0.05 * (sparse[:, 1] - 10) + 0.1 * day
    targets[:, 0] = rng.random(rows) < 1.0 / (1.0 + np.exp(-appeal))
    targets[:, 1] = targets[:, 0] * (rng.random(rows) < 0.3)
    targets[:, 2] = targets[:, 1] * (rng.random(rows) < 0.5)
    return TensorDataset(torch.from_numpy(sparse), torch.from_numpy(dense), torch.from_numpy(targets))


class FieldEmbedding(nn.Module):
    def __init__(self, sizes, dim):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, dim) for size in sizes])
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, sparse):
        columns = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        return torch.stack(columns, dim=1)


def pairwise(embedded):
    square_of_sum = embedded.sum(dim=1).pow(2)
    sum_of_square = embedded.pow(2).sum(dim=1)
    return 0.5 * (square_of_sum - sum_of_square)


class Tower(nn.Module):
    def __init__(self, width, hidden, prior, squash=True):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(hidden, 1)
        self.squash = squash
        nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.head.bias, -math.log((1 - prior) / prior))

    def forward(self, x):
        out = self.head(self.body(x)).squeeze(-1)
        if self.squash:
            out = torch.sigmoid(out)
        return out


class DelayedFeedbackModel(nn.Module):
    def __init__(self, sizes, dim=8, hidden=32):
        super().__init__()
        self.norm = nn.BatchNorm1d(DENSE)
        self.dense = nn.Linear(DENSE, dim)
        self.embedding = FieldEmbedding(sizes, dim)
        self.click = Tower(dim, hidden, prior=0.5)
        self.convert = Tower(dim, hidden, prior=0.3)
        self.delay = Tower(dim, hidden, prior=0.1, squash=False)

    def forward(self, sparse, dense):
        x = self.dense(self.norm(dense))
        embedded = self.embedding(sparse)
        x = x + embedded.mean(dim=1) + pairwise(embedded)
        outputs = {}
        outputs["click"] = self.click(x)
        outputs["convert"] = outputs["click"] * self.convert(x)
        outputs["delayed"] = self.delay(x)
        return outputs


def compute_losses(outputs, targets, weights, with_delay):
    losses = {}
    losses["click"] = F.binary_cross_entropy(outputs["click"], targets[:, 0])
    losses["convert"] = F.binary_cross_entropy(outputs["convert"], targets[:, 1])
    if with_delay:
        losses["delayed"] = F.binary_cross_entropy(outputs["delayed"], targets[:, 2])
    total = sum(weights[name] * value for name, value in losses.items())
    return total, losses


def auc(scores, labels):
    order = np.argsort(scores)
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positives = labels.sum()
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    return (ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives)


def log_loss(scores, labels):
    scores = np.clip(scores, 1e-6, 1 - 1e-6)
    return float(-(labels * np.log(scores) + (1 - labels) * np.log(1 - scores)).mean())


def calibration(scores, labels):
    return float(scores.sum() / max(labels.sum(), 1.0))


class MovingAverage:
    def __init__(self, decay=0.9):
        self.decay = decay
        self.values = {}

    def update(self, losses):
        for name, value in losses.items():
            value = float(value)
            old = self.values.get(name, value)
            self.values[name] = self.decay * old + (1 - self.decay) * value

    def __str__(self):
        return " ".join("%s %.4f" % item for item in sorted(self.values.items()))


@torch.no_grad()
def evaluate(model, dataset, device):
    model.eval()
    scores, labels = [], []
    for sparse, dense, targets in DataLoader(dataset, batch_size=256):
        outputs = model(sparse.to(device), dense.to(device))
        scores.append(torch.stack([outputs["click"], outputs["convert"]], dim=1).cpu())
        labels.append(targets[:, :2])
    scores, labels = torch.cat(scores).numpy(), torch.cat(labels).numpy()
    row = {}
    for i, name in enumerate(("click", "convert")):
        row[name + "_auc"] = auc(scores[:, i], labels[:, i])
        row[name + "_log_loss"] = log_loss(scores[:, i], labels[:, i])
        row[name + "_calibration"] = calibration(scores[:, i], labels[:, i])
    return row


def write_report(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow(row)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--delay-from", type=int, default=1, help="first day on which delayed conversions are known")
    parser.add_argument("--report", default="runs/ctr/report.csv")
    return parser.parse_args()


def main():
    opt = parse()
    rng = np.random.default_rng(2024)
    torch.manual_seed(2024)
    device = torch.device("cuda:0")
    model = DelayedFeedbackModel(list(FIELDS.values())).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=opt.lr)
    weights = {"click": 1.0, "convert": 1.0, "delayed": 0.2}
    average = MovingAverage()
    report = []
    today = simulate_day(0, ROWS, rng)
    for day in range(opt.days):
        tomorrow = simulate_day(day + 1, ROWS, rng)
        model.train()
        loader = DataLoader(today, batch_size=BATCH_SIZE, shuffle=True, pin_memory=True)
        for sparse, dense, targets in loader:
            sparse = sparse.to(device, non_blocking=True)
            dense = dense.to(device, non_blocking=True)
            targets = targets.to(device, non_blocking=True)
            outputs = model(sparse, dense)
            loss, losses = compute_losses(outputs, targets, weights, with_delay=day >= opt.delay_from)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(losses)
        row = {"day": day}
        row.update(evaluate(model, tomorrow, device))
        report.append(row)
        print("day %d  %s" % (day, average))
        today = tomorrow
    write_report(opt.report, report)
    print("final click AUC %.4f" % report[-1]["click_auc"])


if __name__ == "__main__":
    main()
