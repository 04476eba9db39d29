"""Solubility of small molecules with a message passing network."""
import argparse
import logging
import random

import torch

from molnet.batch import batches
from molnet.graphs import ELEMENTS, read_molecules, split, summary
from molnet.network import MessagePassingNet
from molnet.training import EarlyStopping, save, test, train_epoch

log = logging.getLogger("molnet")

HIDDEN = 24
ROUNDS = 3
BATCH_SIZE = 8


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--out", default="runs/molnet")
    return parser.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname).1s %(name)s %(message)s")
    torch.manual_seed(11)
    rng = random.Random(11)

    molecules = read_molecules(args.graphs)
    print(summary(molecules))
    train, held_out = split(molecules, train_fraction=0.8)
    net = MessagePassingNet(len(ELEMENTS) + 2, HIDDEN, ROUNDS).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2, factor=0.5)
    stopping = EarlyStopping(args.patience)
    curve = []
    for epoch in range(args.epochs):
        loss = train_epoch(net, optimizer, batches(train, BATCH_SIZE, rng))
        scores = test(net, batches(held_out, BATCH_SIZE))
        plateau.step(scores["rmse"])
        curve.append(dict(scores, epoch=epoch, loss=loss))
        log.info("epoch %d loss %.4f rmse %.4f", epoch, loss, scores["rmse"])
        if stopping.update(scores["rmse"], net):
            log.info("stopped after %d epochs", epoch + 1)
            break
    save(args.out, stopping.state, curve)
    for name, value in sorted(curve[-1].items()):
        print("%-8s %.4f" % (name, value))


if __name__ == "__main__":
    main()
