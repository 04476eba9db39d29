import copy
import json
import os

import torch
import torch.nn.functional as F

from .batch import to_gpu


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.best = float("inf")
        self.bad = 0
        self.state = None

    def update(self, value, model):
        if value < self.best:
            self.best = value
            self.bad = 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def train_epoch(net, optimizer, loader):
    net.train()
    total, seen = 0.0, 0
    for batch in loader:
        features, edges, owner, target = to_gpu(batch)
        loss = F.mse_loss(net(features, edges, owner, len(target)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
        seen += len(target)
    return total / seen


@torch.no_grad()
def test(net, loader):
    net.eval()
    predicted, wanted = [], []
    for batch in loader:
        features, edges, owner, target = to_gpu(batch)
        predicted.append(net(features, edges, owner, len(target)).cpu())
        wanted.append(target.cpu())
    predicted, wanted = torch.cat(predicted), torch.cat(wanted)
    error = predicted - wanted
    spread = (wanted - wanted.mean()).pow(2).sum().clamp(min=1e-9)
    return {
        "mae": error.abs().mean().item(),
        "rmse": error.pow(2).mean().sqrt().item(),
        "r2": (1 - error.pow(2).sum() / spread).item(),
    }


def save(folder, state, curve):
    os.makedirs(folder, exist_ok=True)
    torch.save(state, os.path.join(folder, "best.pt"))
    with open(os.path.join(folder, "curve.json"), "w") as handle:
        json.dump(curve, handle, indent=1)
