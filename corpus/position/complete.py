#!/usr/bin/env python
"""Complete recipe titles and steps with a small decoder-only model."""
import argparse
import json
import math
import pathlib
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PROMPTS = [
    "stir the onions",
    "preheat the oven to",
    "whisk two eggs and a cup of milk until smooth, then",
    "lemon tart",
    "drain the pasta",
]
CHARACTERS = "\n abcdefghijklmnopqrstuvwxyz,.'-"


CONTEXT = 64
WIDTH = 32
HEADS = 4
LAYERS = 2

IDS = {c: i for i, c in enumerate(CHARACTERS)}


def encode(text):
    return torch.tensor([[IDS[c] for c in text.lower() if c in IDS]]).cuda()


def decode(ids):
    return "".join(CHARACTERS[i] for i in ids.tolist())


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        assert WIDTH % HEADS == 0
        self.heads = HEADS
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.drop = nn.Dropout(0.0)
        causal = torch.tril(torch.ones(2 * CONTEXT, 2 * CONTEXT, dtype=torch.bool))
        self.register_buffer("causal", causal, persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.causal[:t, :t], float("-inf"))
        y = self.drop(F.softmax(att, dim=-1)) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(self.down(F.gelu(self.up(x))))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = CausalSelfAttention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed_forward = FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class RecipeLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(len(CHARACTERS), WIDTH)
        self.position_embedding = nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(0.0)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, len(CHARACTERS), bias=False)
        self.lm_head.weight = self.token_embedding.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids):
        b, t = ids.shape
        positions = torch.arange(t, device=ids.device)
        x = self.token_embedding(ids) + self.position_embedding(positions)
        x = self.drop(x)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))

    def size(self):
        return sum(p.numel() for p in self.parameters())


def penalise_repeats(logits, ids, penalty):
    seen = logits.gather(1, ids)
    seen = torch.where(seen > 0, seen / penalty, seen * penalty)
    return logits.scatter(1, ids, seen)


def keep_top_k(logits, k):
    if k <= 0 or k >= logits.shape[-1]:
        return logits
    threshold = torch.topk(logits, k).values[:, -1:]
    return logits.masked_fill(logits < threshold, float("-inf"))


def choose(logits, ids, sampling):
    if sampling.repetition_penalty != 1.0:
        logits = penalise_repeats(logits, ids, sampling.repetition_penalty)
    if sampling.greedy:
        return logits.argmax(dim=-1, keepdim=True)
    logits = keep_top_k(logits / sampling.temperature, sampling.top_k)
    return torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)


@torch.no_grad()
def complete(model, prompt, sampling):
    ids = encode(prompt)
    start = ids.shape[1]
    for _ in range(sampling.max_new_tokens):
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(ids)[:, -1, :]
        nxt = choose(logits.float(), ids, sampling)
        ids = torch.cat([ids, nxt], dim=1)
    return decode(ids[0, start:])


@torch.no_grad()
def perplexity(model, text):
    ids = encode(text)
    logits = model(ids[:, :-1])
    return math.exp(F.cross_entropy(logits[0].float(), ids[0, 1:]).item())


def load_weights(model, path):
    if path is None:
        return False
    state = torch.load(path, map_location="cpu")
    missing, unexpected = model.load_state_dict(state, strict=False)
    if missing or unexpected:
        print("missing %s, unexpected %s" % (missing, unexpected), file=sys.stderr)
    return True


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", default=None)
    parser.add_argument("--prompts", default=None, help="a text file, one prompt a line")
    parser.add_argument("--max-new-tokens", type=int, default=24)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=12)
    parser.add_argument("--repetition-penalty", type=float, default=1.1)
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", default="runs/completions.json")
    return parser.parse_args()


def read_prompts(path):
    if path is None:
        return PROMPTS
    lines = pathlib.Path(path).read_text().splitlines()
    return [line.strip() for line in lines if line.strip()]


def distinct(text, n):
    grams = [text[i:i + n] for i in range(len(text) - n + 1)]
    return len(set(grams)) / max(1, len(grams))


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed(args.seed)
    model = RecipeLM()
    pretrained = load_weights(model, args.weights)
    model = model.cuda().eval()
    print("%s model, %d parameters" % ("pretrained" if pretrained else "untrained", model.size()))

    results = []
    for prompt in read_prompts(args.prompts):
        started = time.perf_counter()
        score = perplexity(model, prompt)
        text = complete(model, prompt, args)
        seconds = time.perf_counter() - started
        print("%r -> %r" % (prompt, text))
        results.append({
            "prompt": prompt, "completion": text, "perplexity": score, "seconds": seconds,
            "distinct": [distinct(text, n) for n in (1, 2, 3)],
        })
    rate = args.max_new_tokens * len(results) / sum(r["seconds"] for r in results)
    print("%.1f tokens/s" % rate)
    report = pathlib.Path(args.report)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps({"arguments": vars(args), "results": results}, indent=2))


if __name__ == "__main__":
    main()
