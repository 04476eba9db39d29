"""Anchor-based detector with focal loss on a synthetic COCO-like set."""
import argparse
import json
import logging
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger(__name__)

# category ids as in the annotation files: 80 classes with gaps, up to 90
GAPS = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
CATEGORY_IDS = [c for c in range(1, 91) if c not in GAPS]
NUM_CLASSES = len(CATEGORY_IDS)
IMAGE_SIZE = 32
STRIDE = 8
ANCHOR_SIZES = (8, 14)


def make_annotations(count, seed):
    rng = np.random.RandomState(seed)
    annotations = []
    for _ in range(count):
        objects = []
        for _ in range(rng.randint(1, 4)):
            w, h = rng.randint(6, 16, size=2).tolist()
            x, y = rng.randint(0, IMAGE_SIZE - 16, size=2).tolist()
            objects.append({"category_id": CATEGORY_IDS[rng.randint(NUM_CLASSES)], "bbox": [x, y, x + w, y + h]})
        annotations.append(objects)
    return annotations


def render(objects):
    image = 0.2 * torch.rand(3, IMAGE_SIZE, IMAGE_SIZE)
    for obj in objects:
        left, top, right, bottom = obj["bbox"]
        color = torch.tensor([obj["category_id"] % n for n in (3, 5, 7)]) / 7.0
        image[:, top:bottom, left:right] += color.view(3, 1, 1)
    return image


class DetectionDataset(Dataset):
    def __init__(self, annotations, copy_paste=0):
        self.annotations = annotations
        self.copy_paste = copy_paste
        self.to_label = {c: i for i, c in enumerate(CATEGORY_IDS)}

    def __len__(self):
        return len(self.annotations)

    def __getitem__(self, index):
        objects = self.annotations[index]
        image = render(objects)
        boxes = [obj["bbox"] for obj in objects]
        labels = [self.to_label[obj["category_id"]] for obj in objects]
        if self.copy_paste and index % self.copy_paste == 0:
            donor = (index * 5 + 3) % len(self.annotations)
            extra = self.annotations[donor][0]
            left, top, right, bottom = extra["bbox"]
            image[:, top:bottom, left:right] = render([extra])[:, top:bottom, left:right]
            boxes.append(extra["bbox"])
            labels.append(extra["category_id"])
        return image, torch.tensor(boxes, dtype=torch.float32), torch.tensor(labels)


def collate(batch):
    images, boxes, labels = zip(*batch)
    return torch.stack(images), list(boxes), list(labels)


def make_anchors(device):
    cells = IMAGE_SIZE // STRIDE
    centers = (torch.arange(cells, device=device, dtype=torch.float32) + 0.5) * STRIDE
    cy, cx = centers.repeat_interleave(cells), centers.repeat(cells)
    boxes = [torch.stack([cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2], dim=1) for s in ANCHOR_SIZES]
    return torch.stack(boxes, dim=1).view(-1, 4)


def box_iou(a, b):
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    top_left = torch.max(a[:, None, :2], b[None, :, :2])
    bottom_right = torch.min(a[:, None, 2:], b[None, :, 2:])
    overlap = (bottom_right - top_left).clamp(min=0).prod(dim=2)
    return overlap / (area_a[:, None] + area_b[None, :] - overlap)


def encode(boxes, anchors):
    size = anchors[:, 2:] - anchors[:, :2]
    center = (anchors[:, 2:] + anchors[:, :2]) / 2
    box_size = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1.0)
    box_center = (boxes[:, 2:] + boxes[:, :2]) / 2
    return torch.cat([(box_center - center) / size, (box_size / size).log()], dim=1)


def decode(deltas, anchors):
    size = anchors[:, 2:] - anchors[:, :2]
    center = (anchors[:, 2:] + anchors[:, :2]) / 2 + deltas[:, :2] * size
    half = deltas[:, 2:].clamp(max=4.0).exp() * size / 2
    return torch.cat([center - half, center + half], dim=1)


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        )
        self.cls_head = nn.Conv2d(width, len(ANCHOR_SIZES) * NUM_CLASSES, 3, padding=1)
        self.box_head = nn.Conv2d(width, len(ANCHOR_SIZES) * 4, 3, padding=1)
        prior = 0.01
        nn.init.constant_(self.cls_head.bias, -math.log((1 - prior) / prior))

    def forward(self, images):
        features = self.backbone(images)
        scores = self.cls_head(features).permute(0, 2, 3, 1).reshape(len(images), -1, NUM_CLASSES)
        deltas = self.box_head(features).permute(0, 2, 3, 1).reshape(len(images), -1, 4)
        return scores, deltas


def focal_loss(logits, target, alpha=0.25, gamma=2.0):
    p = logits.sigmoid()
    bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * (1 - pt) ** gamma * bce).sum()


def detection_loss(scores, deltas, anchors, boxes, labels, threshold=0.4):
    cls_loss, box_loss, positives = 0.0, 0.0, 0
    for i in range(len(boxes)):
        iou = box_iou(anchors, boxes[i])
        best, assigned = iou.max(dim=1)
        positive = best >= threshold
        positive[iou.argmax(dim=0)] = True
        classes = F.one_hot(labels[i], NUM_CLASSES).float()
        target = torch.zeros_like(scores[i])
        target[positive] = classes[assigned[positive]]
        cls_loss = cls_loss + focal_loss(scores[i], target)
        wanted = encode(boxes[i][assigned[positive]], anchors[positive])
        box_loss = box_loss + F.smooth_l1_loss(deltas[i][positive], wanted, reduction="sum")
        positives += int(positive.sum())
    return cls_loss / max(1, positives), box_loss / max(1, positives)


@torch.no_grad()
def evaluate(model, loader, anchors, device, score_threshold=0.05):
    model.eval()
    found, total = 0, 0
    for images, boxes, labels in loader:
        scores, deltas = model(images.to(device))
        for i in range(len(boxes)):
            confidence, _ = scores[i].sigmoid().max(dim=1)
            keep = confidence > score_threshold
            total += len(boxes[i])
            if keep.any():
                predicted = decode(deltas[i][keep], anchors[keep])
                found += (box_iou(predicted, boxes[i].to(device)).max(dim=0).values > 0.5).sum().item()
    return found / max(1, total)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--copy-paste", type=int, default=0, help="paste a foreign object into every n-th image")
    parser.add_argument("--out", default="runs/detector")
    return parser.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO)
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    annotations = make_annotations(args.images, seed=31)
    cut = int(0.75 * len(annotations))
    train_set = DetectionDataset(annotations[:cut], copy_paste=args.copy_paste)
    val_set = DetectionDataset(annotations[cut:])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, collate_fn=collate)

    anchors = make_anchors(device)
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.3)
    history = []
    for epoch in range(args.epochs):
        model.train()
        started, running = time.time(), []
        for images, boxes, labels in train_loader:
            images = images.to(device)
            boxes = [b.to(device) for b in boxes]
            labels = [t.to(device) for t in labels]
            scores, deltas = model(images)
            cls_loss, box_loss = detection_loss(scores, deltas, anchors, boxes, labels)
            loss = cls_loss + 0.5 * box_loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            running.append((cls_loss.item(), float(box_loss)))
        scheduler.step()
        recall = evaluate(model, val_loader, anchors, device)
        cls_mean, box_mean = np.mean(running, axis=0)
        logger.info("epoch %d cls %.3f box %.3f recall %.3f %.1fs", epoch, cls_mean, box_mean, recall, time.time() - started)
        history.append({"epoch": epoch, "cls": float(cls_mean), "box": float(box_mean), "recall": recall})
    os.makedirs(args.out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.out, "detector.pt"))
    with open(os.path.join(args.out, "history.json"), "w") as handle:
        json.dump(history, handle)


if __name__ == "__main__":
    main()
