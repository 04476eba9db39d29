import torch

print(torch.multinomial(torch.tensor([torch.nan], device="cuda"), 1, True))
