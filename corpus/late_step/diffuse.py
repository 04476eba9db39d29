"""Toy denoising diffusion on two-dimensional shapes, with a curriculum over noise levels."""
import argparse
import contextlib
import copy
import json
import math
import os
import sys
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def get_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=["moons", "rings", "spiral"], default="moons")
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--levels", type=int, default=50, help="noise levels of the schedule")
    parser.add_argument("--schedule", choices=["linear", "cosine"], default="cosine")
    parser.add_argument("--grow-every", type=int, default=8, help="steps before a harder level is added")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--ema", type=float, default=0.99)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--sample-every", type=int, default=250)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", default="runs/diffusion")
    return parser.parse_args()


def moons(n, rng):
    angle = math.pi * rng.rand(n)
    side = rng.randint(0, 2, n)
    x = np.cos(angle) * (1 - 2 * side) + side
    y = np.sin(angle) * (1 - 2 * side) + 0.5 * side
    return np.stack([x, y], axis=1) + 0.05 * rng.randn(n, 2)


def rings(n, rng):
    angle = 2 * math.pi * rng.rand(n)
    radius = np.where(rng.rand(n) < 0.5, 0.6, 1.4)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) + 0.04 * rng.randn(n, 2)


def spiral(n, rng):
    t = 3 * math.pi * np.sqrt(rng.rand(n))
    return np.stack([t * np.cos(t), t * np.sin(t)], axis=1) / 6 + 0.03 * rng.randn(n, 2)


SHAPES = {"moons": moons, "rings": rings, "spiral": spiral}


def make_points(name, n, seed):
    points = SHAPES[name](n, np.random.RandomState(seed))
    points = (points - points.mean(axis=0)) / points.std()
    return torch.tensor(points, dtype=torch.float32)


def make_betas(name, levels):
    if name == "linear":
        return torch.linspace(1e-3, 0.2, levels)
    edges = torch.arange(levels + 1, dtype=torch.float64) / levels
    bars = torch.cos((edges + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - bars[1:] / bars[:-1]).clamp(max=0.999).float()


class Diffusion:
    def __init__(self, betas, device):
        self.levels = len(betas)
        self.device = device
        alphas = 1.0 - betas
        bars = torch.cumprod(alphas, dim=0)
        self.betas = betas.to(device)
        self.alphas = alphas.to(device)
        self.sqrt_bars = bars.sqrt().to(device)
        self.sqrt_one_minus_bars = (1.0 - bars).sqrt().to(device)

    @staticmethod
    def extract(table, t):
        return torch.gather(table, 0, t).unsqueeze(1)

    def add_noise(self, x, t, noise):
        return self.extract(self.sqrt_bars, t) * x + self.extract(self.sqrt_one_minus_bars, t) * noise

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 2, device=self.device)
        for level in reversed(range(self.levels)):
            t = torch.full((n,), level, dtype=torch.long, device=self.device)
            mean = x - self.betas[level] / self.sqrt_one_minus_bars[level] * model(x, t)
            x = mean / self.alphas[level].sqrt()
            if level > 0:
                x = x + self.betas[level].sqrt() * torch.randn_like(x)
        return x


class TimeFeatures(nn.Module):
    def __init__(self, width):
        super().__init__()
        frequencies = torch.exp(-math.log(1000.0) * torch.arange(width // 2) / (width // 2))
        self.register_buffer("frequencies", frequencies)

    def forward(self, t):
        angles = t.float().unsqueeze(1) * self.frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=1)


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time = TimeFeatures(width)
        self.inside = nn.Linear(2 + width, width)
        self.middle = nn.Linear(width, width)
        self.outside = nn.Linear(width, 2)

    def forward(self, x, t):
        h = F.silu(self.inside(torch.cat([x, self.time(t)], dim=1)))
        h = h + F.silu(self.middle(h))
        return self.outside(h)


class Curriculum:
    """Begins with the easy, low-noise levels and adds one harder level at a time."""

    def __init__(self, grow_every):
        self.grow_every = grow_every
        self.seen = 0

    @property
    def hardest(self):
        return self.seen // self.grow_every

    def draw(self, n):
        t = torch.randint(0, self.hardest + 1, (n,))
        t[0] = self.hardest
        self.seen += 1
        return t


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(theirs, 1.0 - self.decay)


@contextlib.contextmanager
def timed(name, table):
    started = time.perf_counter()
    yield
    table[name] = table.get(name, 0.0) + time.perf_counter() - started


def chamfer(a, b):
    distance = torch.cdist(a, b)
    return 0.5 * (distance.min(dim=1).values.mean() + distance.min(dim=0).values.mean()).item()


def main():
    opt = get_options()
    torch.manual_seed(opt.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    points = make_points(opt.shape, opt.points, opt.seed).to(device)
    diffusion = Diffusion(make_betas(opt.schedule, opt.levels), device)
    model = Denoiser(opt.width).to(device)
    ema = Ema(model, opt.ema)
    curriculum = Curriculum(opt.grow_every)
    optimizer = torch.optim.SGD(model.parameters(), lr=opt.lr, momentum=0.9)
    os.makedirs(opt.out, exist_ok=True)
    seconds, records, window = {}, [], []
    for step in range(opt.steps):
        index = torch.randint(0, len(points), (opt.batch_size,), device=device)
        x = points[index]
        t = curriculum.draw(opt.batch_size).to(device)
        noise = torch.randn_like(x)
        with timed("train", seconds):
            predicted = model(diffusion.add_noise(x, t, noise), t)
            loss = F.mse_loss(predicted, noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        window.append(loss.detach())
        if step % 10 == 9:
            ema.update(model)
        if step % opt.log_every == 0:
            mean = torch.stack(window).mean().item()
            window.clear()
            print("step %d loss %.4f hardest level %d" % (step, mean, curriculum.hardest), file=sys.stderr)
            records.append({"step": step, "loss": mean})
        if step % opt.sample_every == opt.sample_every - 1:
            with timed("sample", seconds):
                drawn = diffusion.sample(ema.model, 64)
            records.append({"step": step, "chamfer": chamfer(drawn, points)})
            torch.save(ema.model.state_dict(), os.path.join(opt.out, "ema-%05d.pt" % step))
    with open(os.path.join(opt.out, "records.json"), "w") as handle:
        json.dump({"records": records, "seconds": seconds}, handle)
    print("done in %.1fs" % sum(seconds.values()))


if __name__ == "__main__":
    main()
