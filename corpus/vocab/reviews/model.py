import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (dim // self.heads) ** 0.5
        scores = scores.masked_fill(mask[:, None, None, :], float("-inf"))
        mixed = scores.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, dim))


class AttentionClassifier(nn.Module):
    def __init__(self, vocab_size, classes, dim, heads, max_length, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.tokens = nn.Embedding(vocab_size, dim, padding_idx=pad_id)
        self.positions = nn.Parameter(0.02 * torch.randn(max_length, dim))
        self.attention = SelfAttention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * dim, dim))
        self.classifier = nn.Linear(dim, classes)

    def forward(self, ids):
        mask = ids == self.pad_id
        x = self.tokens(ids) + self.positions[: ids.shape[1]]
        x = x + self.attention(self.norm1(x), mask)
        x = x + self.mlp(self.norm2(x))
        keep = (~mask).unsqueeze(-1).float()
        pooled = (x * keep).sum(dim=1) / keep.sum(dim=1)
        return self.classifier(pooled)
