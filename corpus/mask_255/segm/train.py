import json
import os
import time

import torch

from .config import CLASS_WEIGHTS, CLASSES, DICE_WEIGHT, ROOT, WIDTH, parse_args
from .data import build_loaders
from .losses import segmentation_loss
from .metrics import IoU
from .model import UNet, count_parameters


class History:
    def __init__(self, folder):
        self.folder = folder
        self.rows = []
        self.best = -1.0

    def add(self, epoch, loss, parts):
        self.rows.append(dict(parts, epoch=epoch, loss=loss))

    def mean(self, epoch):
        losses = [row["loss"] for row in self.rows if row["epoch"] == epoch]
        return sum(losses) / max(1, len(losses))

    def improved(self, value):
        if value <= self.best:
            return False
        self.best = value
        return True

    def write(self):
        with open(os.path.join(self.folder, "log.json"), "w") as handle:
            json.dump({"best": self.best, "rows": self.rows}, handle)


def train_epoch(model, loader, optimizer, scaler, device, amp, epoch, history):
    model.train()
    for image, mask in loader:
        image = image.to(device, non_blocking=True)
        mask = mask.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=amp):
            logits = model(image)
        loss, parts = segmentation_loss(logits, mask, CLASS_WEIGHTS, DICE_WEIGHT)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        history.add(epoch, loss.item(), parts)


@torch.no_grad()
def validate(model, loader, device, amp):
    model.eval()
    metric = IoU(len(CLASSES))
    for image, mask in loader:
        with torch.cuda.amp.autocast(enabled=amp):
            logits = model(image.to(device))
        metric.update(logits.argmax(dim=1).cpu().numpy(), mask.numpy())
    return metric.compute()


def save(model, optimizer, epoch, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    os.makedirs(args.out, exist_ok=True)
    device = torch.device("cuda:0")
    train_loader, val_loader = build_loaders(ROOT, args.batch_size)
    model = UNet(3, len(CLASSES), WIDTH).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, args.epochs))
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    history = History(args.out)
    print("UNet with %d parameters" % count_parameters(model))
    for epoch in range(args.epochs):
        started = time.time()
        train_epoch(model, train_loader, optimizer, scaler, device, args.amp, epoch, history)
        scheduler.step()
        print("epoch %d: loss %.4f in %.1fs" % (epoch, history.mean(epoch), time.time() - started))
        if (epoch + 1) % args.val_every == 0 or epoch + 1 == args.epochs:
            result = validate(model, val_loader, device, args.amp)
            print("mIoU %.4f %s" % (result["miou"], result["iou"]))
            if history.improved(result["miou"]):
                save(model, optimizer, epoch, os.path.join(args.out, "best.pt"))
    save(model, optimizer, args.epochs, os.path.join(args.out, "last.pt"))
    history.write()


if __name__ == "__main__":
    main()
