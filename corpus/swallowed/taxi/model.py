import torch
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Dropout(dropout), nn.Linear(width, width)
        )

    def forward(self, x):
        return x + self.net(x)


class DurationNet(nn.Module):
    def __init__(self, zones, width=32, depth=2, dropout=0.05):
        super().__init__()
        self.zone = nn.Embedding(zones, width)
        self.inside = nn.Linear(3, width)
        self.blocks = nn.Sequential(*[ResidualBlock(width, dropout) for _ in range(depth)])
        self.outside = nn.Linear(width, 1)
        nn.init.constant_(self.outside.bias, 10.0)

    def forward(self, dense, origin, destination):
        x = self.inside(dense)
        x = x + self.zone(origin) - self.zone(destination)
        x = self.blocks(torch.relu(x))
        return self.outside(x).squeeze(1)


def parameter_groups(model, weight_decay):
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]


def freeze(module):
    for parameter in module.parameters():
        parameter.requires_grad_(False)
