import torch
from torch import nn

from .layers import MessagePassing, Readout


class MessagePassingNet(nn.Module):
    def __init__(self, features, width, rounds):
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.layers = nn.ModuleList([MessagePassing(width) for _ in range(rounds)])
        self.readout = Readout(width)
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, features, edges, owner, count):
        states = torch.relu(self.embed(features))
        for layer in self.layers:
            states = layer(states, edges)
        return self.head(self.readout(states, owner, count)).squeeze(1)
