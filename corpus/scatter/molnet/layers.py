import torch
from torch import nn

from .scatter import segment_mean, segment_sum


class MessagePassing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.update = nn.GRUCell(width, width)

    def forward(self, states, edges):
        source, destination = edges[0], edges[1]
        incoming = segment_sum(self.message(states)[source], destination, states.shape[0])
        return self.update(incoming, states)


class Readout(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 1)
        self.value = nn.Linear(width, width)

    def forward(self, states, owner, count):
        weighted = torch.sigmoid(self.gate(states)) * self.value(states)
        return torch.cat([segment_sum(weighted, owner, count), segment_mean(states, owner, count)], dim=1)
