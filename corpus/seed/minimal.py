import torch

print(torch.index_select(torch.zeros(1, device="cuda"), 0, torch.tensor(1, device="cuda")))
