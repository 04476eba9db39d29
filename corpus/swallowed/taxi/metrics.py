import torch


class RunningMean:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def value(self):
        return self.total / self.count if self.count else float("nan")


class HourlyError:
    def __init__(self, hours, device):
        self.total = torch.zeros(hours, device=device)
        self.count = torch.zeros(hours, device=device)

    def update(self, error, hour):
        self.total.scatter_add_(0, hour, error)
        self.count.scatter_add_(0, hour, torch.ones_like(error))

    def mean(self):
        return self.total / self.count.clamp(min=1)

    def worst(self, n):
        values, hours = self.mean().topk(n)
        return list(zip(hours.tolist(), values.tolist()))


def quantiles(values, levels):
    ordered = values.sort().values
    last = len(ordered) - 1
    return {level: ordered[int(round(level * last))].item() for level in levels}
