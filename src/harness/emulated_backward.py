"""Rules of the backward pass: only the error's text and the graph are left, and some kernels check what the CPU does not.

Invariant: what the graph has saved is read and never changed; without it the text alone decides.
This file must not run a backward pass.
"""

import re

from .emulated_findings import Finding, elementwise, offence, outside


def nodes(roots, name):
    """Nodes of this kind in the graph behind some tensors, nearest first."""
    waiting, seen = [root.grad_fn for root in roots], set()
    for node in waiting:
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == name:
            yield node
        waiting.extend(follower for follower, _ in node.next_functions)


def _saved(node, name):
    """What a node keeps for its backward; None when it has been released."""
    try:
        return getattr(node, "_saved_" + name)
    except (AttributeError, RuntimeError):
        return None


def _roots(call):
    found = []
    for value in call.args:
        found.extend(value if isinstance(value, (list, tuple)) else [value])
    return [value for value in found if isinstance(value, call.torch.Tensor)]


def _label(call, text):
    """A target that changed after the forward call: the kernel by shape, from the node that holds it."""
    for name, image in (("NllLossBackward0", False), ("NllLoss2DBackward0", True)):
        for node in nodes(_roots(call), name):
            scores, target = _saved(node, "self"), _saved(node, "target")
            if scores is None or target is None:
                continue
            classes = scores.shape[1 if scores.dim() > 1 else 0]
            ignore = _saved(node, "ignore_index")
            if ignore is not None and ignore >= 2 ** 63:
                ignore -= 2 ** 64       # before 2.0 it is read as unsigned
            found = outside(target.long(), 0, classes, ignore)
            if found is None:
                continue
            kernel = "nll_image_back" if image else "nll_2d_back" if scores.dim() > 1 else "nll_1d_back"
            return Finding(kernel, found[1], 0, found[0] % 32)
    return Finding("nll_2d_back", _offence(text, None))


def _offence(value, limit):
    return offence("below" if value.startswith("-") else "above", value, limit, [])


def _pooled(call, deep):
    """Indices of a fractional pooling that changed after the forward call."""
    kernel, name = ("fractional_3d", "FractionalMaxPool3DBackward0") if deep else \
        ("fractional_2d", "FractionalMaxPool2DBackward0")
    for node in nodes(_roots(call), name):
        given, index = _saved(node, "self"), _saved(node, "result1")
        if given is None or index is None:
            continue
        volume = 1
        for size in given.shape[-3 if deep else -2:]:
            volume *= size
        found = outside(index, 0, volume)
        if found is not None:
            return Finding(kernel, found[1], condition="index >= 0" if found[1]["kind"] == "below" else None,
                           **elementwise(found[0]))
    return Finding(kernel, offence("other", "", None, []))


def backward(call):
    """The finding for an error of the backward pass."""
    text = call.text
    found = re.search(r"Target (-?\d+) is out of bounds", text)
    if found:
        return _label(call, found.group(1))
    found = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", text)
    if found:
        return Finding("gather", _offence(*found.groups()))
    if "index out of range in self" in text:
        return Finding("add_small", offence("other", "", None, []))
    if "FractionalMaxPool" in text:
        return _pooled(call, "FractionalMaxPool3d" in text)
    return None


def changed_target(args, kwargs):
    """For a loss of one value a row: what to ask before its backward runs, which the CPU does not check."""
    if (kwargs.get("reduction") or (args[6] if len(args) > 6 else None)) != "none":
        return None
    scores = args[0] if args else kwargs["input"]
    target = args[1] if len(args) > 1 else kwargs["target"]
    if scores.dim() != 2 or target.is_floating_point():
        return None
    ignore = kwargs.get("ignore_index", args[4] if len(args) > 4 else -100)

    def ask():
        found = outside(target.long(), 0, scores.shape[1], ignore)
        return None if found is None else Finding("nll_none_back", found[1], 0, found[0] % 1024)
    return ask


# calls after which the backward pass must be watched
WATCHED = {"cross_entropy": changed_target, "nll_loss": changed_target}
