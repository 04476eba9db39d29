import torch

from .graphs import bond_index, featurize


def collate(molecules):
    sizes = [len(molecule["atoms"]) for molecule in molecules]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    features = torch.cat([featurize(molecule["atoms"]) for molecule in molecules])
    edges = torch.cat([bond_index(m["bonds"]) + start for m, start in zip(molecules, starts)], dim=1)
    owner = torch.repeat_interleave(torch.arange(len(molecules)), torch.tensor(sizes))
    target = torch.tensor([molecule["solubility"] for molecule in molecules])
    return features, edges, owner, target


def batches(molecules, batch_size, rng=None):
    molecules = list(molecules)
    if rng is not None:
        rng.shuffle(molecules)
    for start in range(0, len(molecules), batch_size):
        yield [part.pin_memory() for part in collate(molecules[start:start + batch_size])]


def to_gpu(batch):
    return [part.cuda(non_blocking=True) for part in batch]
