import torch

print(torch.nn.functional.one_hot(torch.tensor(1, device="cuda"), 1))
