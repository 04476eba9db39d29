"""The arguments of a torch call as outcome.json has them: names, shapes, types, strides, devices, and what values say.

Invariant: no argument is changed, and values are read only where the caller says that they can be; a value that JSON
has no number for is written as text.  It must not know what is wrong with an argument.
"""

from .emulated_state import TAG

VALUES = 64         # tensors up to this many elements are written out
READ = 1 << 26      # tensors above this many elements are not read at all

_NAMES = {
    "cross_entropy": "input target weight size_average ignore_index reduce reduction label_smoothing",
    "nll_loss": "input target weight size_average ignore_index reduce reduction",
    "binary_cross_entropy": "input target weight size_average reduce reduction",
    "multi_margin_loss": "input target p margin weight size_average reduce reduction",
    "embedding": "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
    "embedding_bag": "input weight offsets max_norm norm_type scale_grad_by_freq mode",
    "one_hot": "input num_classes", "index_select": "input dim index", "gather": "input dim index",
    "take_along_dim": "input indices dim", "multinomial": "input num_samples replacement",
    "scatter": "self dim index src", "scatter_add": "self dim index src", "scatter_reduce": "self dim index src reduce",
    "index_add": "self dim index source", "index_copy": "self dim index source", "index_fill": "self dim index value",
    "index_put": "self indices values accumulate", "take": "input index", "put": "self index source accumulate",
    "masked_scatter": "self mask source", "__getitem__": "self index", "__setitem__": "self index value",
    "bernoulli": "input p", "poisson": "input", "repeat_interleave": "input repeats dim",
    "_assert_async": "input assert_msg", "linear": "input weight bias", "max_unpool2d": "input indices kernel_size",
    "backward": "self gradient retain_graph create_graph inputs",
}


def describe(torch, name, args, kwargs, readable):
    """Describes each argument, those by name last and in order of their names."""
    leaf = name.rsplit(".", 1)[-1]
    names = _NAMES.get(leaf) or _NAMES.get(leaf.rstrip("_")) or ""
    names = names.split()
    if name in ("torch.embedding", "torch.embedding_bag"):
        names[:2] = ["weight", "input"]
    if name.startswith("torch.Tensor.") and names:
        names[0] = "self"
    described = []
    for at, value in enumerate(args):
        described.append(_one(torch, names[at] if at < len(names) else "arg%d" % at, value, readable))
    for key in sorted(kwargs):
        described.append(dict(_one(torch, key, kwargs[key], readable), keyword=True))
    return described


def holder(described, offence):
    """Name of the argument that holds the offending value, or None where none or several could."""
    found = []
    for argument in described:
        for tensor in argument.get("items") or [argument]:
            if _holds(tensor, offence):
                found.append(argument["name"])
    return found[0] if found else None


def _holds(tensor, offence):
    shape, position = tensor.get("shape"), offence.get("position")
    if shape is None or position is None or len(position) != len(shape):
        return False
    if any(at >= size for at, size in zip(position, shape)):
        return False
    if offence["kind"] in ("nan", "inf"):
        return bool(tensor.get(offence["kind"]))
    low, high = tensor.get("min"), tensor.get("max")
    try:
        value = float(offence["value"])
    except ValueError:
        return False
    if low is None or not low <= value <= high:
        return False
    at = tensor.get("values")
    for index in position:
        at = at[index] if isinstance(at, list) else at
    return not isinstance(at, (int, float)) or abs(at - value) <= 1e-6 * abs(value)


def _one(torch, name, value, readable, depth=0):
    if isinstance(value, torch.Tensor):
        return _tensor(torch, name, value, readable)
    if isinstance(value, (list, tuple)) and depth < 2 and any(isinstance(v, torch.Tensor) for v in value):
        text = "[%s]" % ", ".join("T%s %s" % (list(v.shape), str(v.dtype)[6:]) if isinstance(v, torch.Tensor)
                                  else repr(v)[:60] for v in value[:8])
        items = [_one(torch, str(at), v, readable, depth + 1) for at, v in enumerate(value[:8])]
        return {"name": name, "value": text, "items": items if len(value) <= 8 else []}
    try:
        text = repr(value)
    except Exception:
        text = "<%s>" % type(value).__name__
    return {"name": name, "value": text if len(text) <= 200 else text[:197] + "..."}


def _tensor(torch, name, tensor, readable):
    tag = getattr(tensor, TAG, None)
    said = {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype).replace("torch.", ""),
            "device": str(tensor.device) if tag is None else "cuda:%d" % tag,
            "stride": list(tensor.stride()) if tensor.layout == torch.strided else None,
            "min": None, "max": None, "nan": None, "inf": None}
    if not readable or tensor.layout != torch.strided or tensor.is_complex() or not 0 < tensor.numel() <= READ:
        return said
    flat = tensor.detach()
    if flat.is_floating_point():
        flat = flat.double()
        said["nan"] = int(torch.isnan(flat).sum())
        said["inf"] = int(torch.isinf(flat).sum())
        flat = flat[torch.isfinite(flat)]
    if flat.numel():
        said["min"], said["max"] = flat.min().item(), flat.max().item()
    if tensor.numel() <= VALUES:
        said["values"] = _numbers(tensor.detach().tolist())
    return said


def _numbers(value):
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
