import json

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

LABELS = {"negative": 0, "neutral": 1, "positive": 2}


def load_reviews(path):
    with open(path) as handle:
        rows = [json.loads(line) for line in handle]
    train = [row for row in rows if row["split"] == "train"]
    dev = [row for row in rows if row["split"] == "dev"]
    return train, dev


def label_weights(rows):
    counts = dict.fromkeys(LABELS, 0)
    for row in rows:
        counts[row["label"]] += 1
    weights = [len(rows) / (len(LABELS) * max(1, counts[name])) for name in LABELS]
    return torch.tensor(weights)


def make_loader(rows, tokenizer, batch_size, max_length, shuffle):
    ids = [torch.tensor(tokenizer.encode(row["text"])[:max_length]) for row in rows]
    labels = torch.tensor([LABELS[row["label"]] for row in rows])
    dataset = TensorDataset(pad_sequence(ids, batch_first=True), labels)
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, pin_memory=True)


def length_statistics(rows, tokenizer):
    lengths = sorted(len(tokenizer.encode(row["text"])) for row in rows)
    middle = lengths[len(lengths) // 2]
    return {"shortest": lengths[0], "median": middle, "longest": lengths[-1]}
