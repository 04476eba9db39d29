"""Train a small text classifier on product reviews."""
import argparse
import os

import torch

from reviews.data import LABELS, label_weights, length_statistics, load_reviews, make_loader
from reviews.engine import evaluate, make_optimizer, train
from reviews.model import AttentionClassifier
from reviews.tokenizer import Tokenizer
from reviews.utils import RunLog, describe, set_seed


OUTPUT = "runs/reviews"
DIM, HEADS, MAX_LENGTH = 32, 4, 24


def get_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--min-count", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1234)
    return parser.parse_args()


def main():
    args = get_args()
    set_seed(args.seed)
    os.makedirs(OUTPUT, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_rows, dev_rows = load_reviews(args.data)
    tokenizer = Tokenizer.build([row["text"] for row in train_rows], min_count=args.min_count)
    tokenizer.save(os.path.join(OUTPUT, "vocab.txt"))
    print("%d words, lengths %s" % (len(tokenizer), length_statistics(train_rows, tokenizer)))
    train_loader = make_loader(train_rows, tokenizer, args.batch_size, MAX_LENGTH, shuffle=True)
    dev_loader = make_loader(dev_rows, tokenizer, args.batch_size, MAX_LENGTH, shuffle=False)

    model = AttentionClassifier(len(tokenizer), len(LABELS), DIM, HEADS, MAX_LENGTH).to(device)
    print(describe(model))
    log = RunLog(os.path.join(OUTPUT, "log.tsv"))
    optimizer = make_optimizer(model, args.lr)
    weights = label_weights(train_rows).to(device)
    best = 0.0
    for epoch in range(args.epochs):
        train_loss = train(model, train_loader, optimizer, weights, device, log)
        report = evaluate(model, dev_loader, device)
        log.write("dev", report["loss"])
        print("epoch %d train %.4f dev %.4f accuracy %.3f" % (epoch, train_loss, report["loss"], report["accuracy"]))
        if report["accuracy"] >= best:
            best = report["accuracy"]
            torch.save(model.state_dict(), os.path.join(OUTPUT, "model.pt"))
    log.close()


if __name__ == "__main__":
    main()
