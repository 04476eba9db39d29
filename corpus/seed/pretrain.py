"""Contrastive pretraining of an encoder on heart-rate recordings."""
import argparse
import json
import math
import os
import random
import statistics
import time
from dataclasses import dataclass
from typing import List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Recording:
    patient: str
    signal: torch.Tensor
    rate: float


WINDOW = 96
TEMPERATURE = 0.2
QUEUE = 64
EMBEDDING = 24


def synthesize(count, seed) -> List[Recording]:
    rng = np.random.RandomState(seed)
    recordings = []
    for n in range(count):
        length = 300 + 20 * (n % 3)
        rate = rng.uniform(0.8, 1.8)
        t = np.arange(length) / 25.0
        phase = (t * rate) % 1.0
        wave = np.exp(-((phase - 0.3) / 0.04) ** 2) + 0.3 * np.exp(-((phase - 0.6) / 0.08) ** 2)
        wave += 0.1 * np.sin(2 * math.pi * 0.2 * t)
        wave += 0.03 * rng.randn(length)
        recordings.append(Recording("p%03d" % n, torch.tensor(wave, dtype=torch.float32), float(rate)))
    return recordings


def random_crop(signal):
    start = random.randint(0, len(signal) - WINDOW + 1)
    return torch.index_select(signal, 0, torch.arange(start, start + WINDOW, device=signal.device))


def random_mask(x):
    x = x.clone()
    width = random.randrange(4, 16)
    begin = random.randrange(len(x) - width)
    x[begin:begin + width] = 0.0
    return x


def augment(signal):
    view = random_crop(signal)
    view = view * (1.0 + random.gauss(0.0, 0.1))
    if random.random() < 0.5:
        view = -view
    if random.random() < 0.3:
        view = random_mask(view)
    return view


class Encoder(nn.Module):
    def __init__(self, width, embedding):
        super().__init__()
        self.conv1 = nn.Conv1d(1, width, 7, stride=2, padding=3)
        self.norm1 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv1d(width, 2 * width, 5, stride=2, padding=2)
        self.norm2 = nn.GroupNorm(4, 2 * width)
        self.project = nn.Linear(2 * width, embedding)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x.unsqueeze(1))))
        x = F.relu(self.norm2(self.conv2(x)))
        return F.normalize(self.project(x.mean(dim=2)), dim=1)


class NegativeQueue:
    def __init__(self, size, width, device):
        self.items = F.normalize(torch.randn(size, width, device=device), dim=1)
        self.cursor = 0

    def push(self, rows):
        for row in rows:
            self.items[self.cursor] = row
            self.cursor = (self.cursor + 1) % len(self.items)


def info_nce(first, second, negatives, temperature):
    positive = (first * second).sum(dim=1, keepdim=True)
    negative = first @ negatives.t()
    logits = torch.cat([positive, negative], dim=1) / temperature
    target = torch.zeros(len(first), dtype=torch.long, device=first.device)
    return F.cross_entropy(logits, target)


def alignment(first, second):
    return (first - second).pow(2).sum(dim=1).mean().item()


def uniformity(x):
    return torch.pdist(x.cpu(), p=2).pow(2).mul(-2).exp().mean().log().item()


def batches(items, size):
    order = list(range(len(items)))
    random.shuffle(order)
    for begin in range(0, len(order), size):
        yield [items[i] for i in order[begin:begin + size]]


@torch.no_grad()
def probe(encoder, recordings):
    """Correlation of the nearest neighbour's heart rate with the recording's own."""
    encoder.eval()
    views = torch.stack([r.signal[:WINDOW] for r in recordings])
    codes = encoder(views)
    similarity = codes @ codes.t()
    similarity.fill_diagonal_(-1.0)
    nearest = similarity.argmax(dim=1).tolist()
    own = np.array([r.rate for r in recordings])
    other = np.array([recordings[i].rate for i in nearest])
    return float(np.corrcoef(own, other)[0, 1])


def cosine_lr(optimizer, base, step, total):
    lr = 0.5 * base * (1 + math.cos(math.pi * step / total))
    for group in optimizer.param_groups:
        group["lr"] = lr
    return lr


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", default="runs/pretrain")
    return parser.parse_args()


def main():
    args = parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recordings = synthesize(args.records, seed=100)
    for recording in recordings:
        signal = recording.signal.to(device)
        recording.signal = (signal - signal.mean()) / signal.std()

    encoder = Encoder(args.width, EMBEDDING).to(device)
    queue = NegativeQueue(QUEUE, EMBEDDING, device)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    total = args.epochs * math.ceil(len(recordings) / args.batch_size)
    step, curve = 0, []
    for epoch in range(args.epochs):
        encoder.train()
        started, losses = time.time(), []
        for group in batches(recordings, args.batch_size):
            lr = cosine_lr(optimizer, args.lr, step, total)
            first = torch.stack([augment(r.signal) for r in group])
            second = torch.stack([augment(r.signal) for r in group])
            first, second = encoder(first), encoder(second)
            loss = info_nce(first, second, queue.items, TEMPERATURE)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimizer.step()
            queue.push(second.detach())
            losses.append(loss.item())
            step += 1
        score = probe(encoder, recordings)
        curve.append({
            "epoch": epoch, "loss": statistics.mean(losses), "probe": score, "lr": lr,
            "alignment": alignment(first.detach(), second.detach()), "uniformity": uniformity(queue.items),
        })
        print("epoch %(epoch)d loss %(loss).4f probe %(probe).3f" % curve[-1], "%.2fs" % (time.time() - started))
    os.makedirs(args.out, exist_ok=True)
    torch.save({"encoder": encoder.state_dict(), "arguments": vars(args)}, os.path.join(args.out, "encoder.pt"))
    with open(os.path.join(args.out, "curve.json"), "w") as handle:
        json.dump(curve, handle)


if __name__ == "__main__":
    main()
