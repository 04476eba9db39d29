import torch

print(torch.zeros(1, device="cuda").scatter_add_(0, torch.tensor(1, device="cuda"), torch.zeros(1, device="cuda")))
