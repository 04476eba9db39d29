import torch


def segment_sum(values, index, count):
    out = torch.zeros(count, values.shape[1], device=values.device, dtype=values.dtype)
    return out.index_add_(0, index, values)


def segment_mean(values, index, count):
    ones = torch.ones(values.shape[0], 1, device=values.device, dtype=values.dtype)
    return segment_sum(values, index, count) / segment_sum(ones, index, count).clamp(min=1)
