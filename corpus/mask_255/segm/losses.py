import torch
import torch.nn.functional as F


def dice_loss(logits, mask, eps=1.0):
    probabilities = logits.float().softmax(dim=1)
    truth = F.one_hot(mask, logits.shape[1]).permute(0, 3, 1, 2).float()
    overlap = (probabilities * truth).sum(dim=(0, 2, 3))
    total = (probabilities + truth).sum(dim=(0, 2, 3))
    return 1.0 - ((2.0 * overlap + eps) / (total + eps)).mean()


def segmentation_loss(logits, mask, class_weights, dice_weight):
    weight = torch.tensor(class_weights, device=logits.device)
    pixel = F.cross_entropy(logits.float(), mask, weight=weight)
    dice = dice_loss(logits, mask)
    return pixel + dice_weight * dice, {"pixel": pixel.item(), "dice": dice.item()}
