import torch

print(torch.nn.functional.binary_cross_entropy(torch.tensor(-1.0, device="cuda"), torch.tensor(0.0, device="cuda")))
