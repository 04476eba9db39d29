import torch
import torch.nn.functional as F


def make_optimizer(model, lr):
    decay, plain = [], []
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "positions" not in name:
            decay.append(parameter)
        else:
            plain.append(parameter)
    groups = [{"params": decay, "weight_decay": 1e-4}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.Adam(groups, lr=lr)


def train(model, loader, optimizer, weights, device, log):
    model.train()
    total = 0.0
    for tokens, labels in loader:
        tokens, labels = tokens.to(device), labels.to(device)
        loss = F.cross_entropy(model(tokens), labels, weight=weights)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        log.write("train", loss.item())
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    loss, correct, seen = 0.0, 0, 0
    for tokens, labels in loader:
        tokens, labels = tokens.to(device), labels.to(device)
        logits = model(tokens)
        loss += F.cross_entropy(logits, labels, reduction="sum").item()
        correct += (logits.argmax(dim=-1) == labels).sum().item()
        seen += len(labels)
    return {"loss": loss / seen, "accuracy": correct / seen}
