import torch

print(torch.gather(torch.zeros(1, device="cuda"), 0, torch.tensor(1, device="cuda")))
