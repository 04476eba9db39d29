"""Predict taxi trip durations and report the error by hour of arrival."""
import argparse
import json
import logging
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from taxi.metrics import HourlyError, RunningMean, quantiles
from taxi.model import DurationNet, freeze, parameter_groups
from taxi.trips import ZONES, make_trips, trip_tensors

log = logging.getLogger("taxi")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--freeze-zones", action="store_true")
    parser.add_argument("--out", default="runs/taxi")
    return parser.parse_args()


def track(hourly, predicted, duration, arrival_hour):
    try:
        error = (predicted.detach() - duration).abs()
        hourly.update(error, arrival_hour)
    except RuntimeError as problem:
        log.debug("no hourly error for this batch: %s", problem)


def train_epoch(model, loader, optimizer, scaler, hourly, device):
    model.train()
    mean = RunningMean()
    for batch in loader:
        dense, origin, destination, arrival_hour, duration = [part.to(device, non_blocking=True) for part in batch]
        with torch.autocast("cuda", dtype=torch.float16):
            predicted = model(dense, origin, destination)
        predicted = predicted.float()
        loss = F.smooth_l1_loss(predicted, duration)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        track(hourly, predicted, duration, arrival_hour)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        scaler.step(optimizer)
        scaler.update()
        mean.update(loss.item(), len(predicted))
    return mean.value


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    errors = []
    for batch in loader:
        dense, origin, destination, _, duration = [part.to(device) for part in batch]
        with torch.autocast("cuda", dtype=torch.float16):
            predicted = model(dense, origin, destination)
        errors.append((predicted.float() - duration).abs().cpu())
    errors = torch.cat(errors)
    return {"mae": errors.mean().item(), "quantiles": quantiles(errors, (0.5, 0.9, 0.99))}


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    trips = make_trips(192, seed=7)
    cut = len(trips) * 5 // 6
    train_loader = DataLoader(trip_tensors(trips[:cut]), batch_size=args.batch_size, shuffle=True, pin_memory=True)
    test_loader = DataLoader(trip_tensors(trips[cut:]), batch_size=64, pin_memory=True)
    model = DurationNet(ZONES).to(device)
    if args.freeze_zones:
        freeze(model.zone)
    hourly = HourlyError(24, device)
    optimizer = torch.optim.AdamW(parameter_groups(model, 1e-2), lr=args.lr)
    scaler = torch.cuda.amp.GradScaler()
    history = []
    for epoch in range(args.epochs):
        loss = train_epoch(model, train_loader, optimizer, scaler, hourly, device)
        report = evaluate(model, test_loader, device)
        log.info("epoch %d loss %.3f mae %.3f", epoch, loss, report["mae"])
        history.append(dict(report, epoch=epoch, loss=loss))
    os.makedirs(args.out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.out, "model.pt"))
    for hour, error in hourly.worst(3):
        print("worst hour %02d: %.2f min" % (hour, error))
    with open(os.path.join(args.out, "history.json"), "w") as handle:
        json.dump(history, handle, indent=2)


if __name__ == "__main__":
    main()
