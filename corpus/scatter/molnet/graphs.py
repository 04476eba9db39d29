import json

import torch

ELEMENTS = ("C", "N", "O", "F", "S", "Cl")


def read_molecules(path):
    with open(path) as handle:
        document = json.load(handle)
    if document["meta"]["undirected"]:
        for molecule in document["molecules"]:
            molecule["bonds"] += [{"from": bond["to"], "to": bond["from"]} for bond in molecule["bonds"]]
    return document["molecules"]


def featurize(atoms):
    features = torch.zeros(len(atoms), len(ELEMENTS) + 2)
    for i, atom in enumerate(atoms):
        features[i, ELEMENTS.index(atom["element"])] = 1.0
        features[i, -2] = float(atom.get("charge", 0))
        features[i, -1] = 1.0 if atom.get("aromatic") else 0.0
    return features


def bond_index(bonds):
    return torch.tensor([[bond["from"], bond["to"]] for bond in bonds]).t()


def split(molecules, train_fraction):
    cut = int(len(molecules) * train_fraction)
    return molecules[:cut], molecules[cut:]


def summary(molecules):
    atoms = sum(len(molecule["atoms"]) for molecule in molecules)
    bonds = sum(len(molecule["bonds"]) for molecule in molecules)
    counts = dict.fromkeys(ELEMENTS, 0)
    for molecule in molecules:
        for atom in molecule["atoms"]:
            counts[atom["element"]] += 1
    targets = torch.tensor([molecule["solubility"] for molecule in molecules])
    return "%d molecules, %d atoms %s, %d bonds, target %.2f +- %.2f" % (
        len(molecules), atoms, counts, bonds, targets.mean().item(), targets.std().item())
