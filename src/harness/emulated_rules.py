"""From a call that failed on the CPU to the kernel that would assert on the GPU and the value that trips it.

Invariant: a rule reads its arguments and changes none; it answers None when the error is one that CUDA raises
from the host as well (shapes, dtypes, Python integers as index), which then passes unchanged.
This file must not print, raise the CUDA error or know about tags.
"""

import re

from .emulated_backward import backward
from .emulated_findings import Finding, elementwise, first, held, offence, outside, probability

VALUE_ERROR = re.compile(
    r"out of (bounds|range|DATA bounds)|should be between 0 and 1|Class values must|probability tensor contains"
    r"|invalid multinomial|Expected p_in|invalid Poisson|repeats can not be negative|allocated size does not"
    r"|invalid max index|Number of elements of source|embedding_bag: Expected|Expected i < index_size"
    r"|not in the valid range|enforce fail at embedding_lookup|segment_length >= 0|is not satisfied"
    r"|INTERNAL ASSERT FAILED at .*FractionalMaxPool")


# ---- losses

def nll(call):
    scores, target = call.arg(0, "input"), call.arg(1, "target")
    if target is None or target.is_floating_point():
        return None
    dims = scores.dim()
    ignore = call.arg(4, "ignore_index", default=-100)
    reduction = call.arg(6, "reduction", default="mean")
    classes = scores.shape[1 if dims > 1 else 0]
    wide = target.long()
    found = outside(wide, 0, classes, ignore)
    if found is None:
        return None
    at, what = found
    each = reduction == "none" or reduction == 0
    kernel = ("nll_image_none" if each else "nll_image") if dims > 2 else \
        "nll_1d" if dims == 1 else "nll_none" if each else "nll_2d"
    thread = at % 32 if kernel == "nll_2d" else 0 if kernel == "nll_1d" else at % 1024
    condition = None
    if str(target.dtype) == "torch.uint8" and call.version >= (2, 0) and dims < 3:
        condition = "cur_target < n_classes" if kernel == "nll_none" else "t < n_classes"
    return Finding(kernel, what, 0, thread, condition=condition,
                   silent=call.again(target, target.clamp(0, classes - 1)))


def bce(call):
    for kernel, values in (("bce_input", call.arg(0, "input")), ("bce_target", call.arg(1, "target"))):
        found = probability(values)
        if found is not None:
            at, what = found
            return Finding(kernel, what, **elementwise(at))
    return None


def multi_margin(call):
    scores, target = call.arg(0, "input"), call.arg(1, "target")
    classes = scores.shape[-1]
    found = outside(target, 0, classes)
    if found is None:
        return None
    return Finding("multi_margin", found[1], found[0], 0, silent=call.again(target, target.clamp(0, classes - 1)))


def multilabel_margin(call):
    target = call.arg(1, "target")
    classes = target.shape[-1]
    found = outside(target, -1, classes)
    if found is None:
        return None
    return Finding(None, found[1], silent=call.again(target, target.clamp(-1, classes - 1)))


# ---- tables and indices

def wide_rows(table, dim, count):
    """Whether the vectorised gather takes it: several whole, contiguous, 16-byte aligned rows."""
    if table.dim() == 0 or not table.is_contiguous():
        return False
    before = after = 1
    for i, size in enumerate(table.shape):
        if i < dim:
            before *= size
        elif i > dim:
            after *= size
    size = table.element_size()
    return before == 1 and after > 1 and count > 1 and after * size % 16 == 0 and \
        table.storage_offset() * size % 16 == 0


def pick(call, table, dim, index, found):
    """Kernel of index_select and embedding by the number of indices and the width of a row."""
    at, what = found
    count = index.numel()
    if count <= 16:
        return Finding("select_small", what)
    if call.version < (2, 8):
        return Finding("select_large", what, at // 128, at % 128)
    if wide_rows(table, dim, count):
        return Finding("vectorized", what, at, 0)
    return Finding("gather", what, **elementwise(at))


def embedding(call):
    index, table = call.arg(0, "input"), call.arg(1, "weight")
    if call.name.startswith("torch.embedding"):
        table, index = call.arg(0, "weight"), call.arg(1, "indices")
    found = outside(index, 0, table.shape[0])
    return None if found is None else pick(call, table, 0, index, found)


def index_select(call):
    table, dim, index = call.arg(0, "input", "self"), call.arg(1, "dim"), call.arg(2, "index")
    dim %= max(table.dim(), 1)
    if table.is_sparse:
        found = outside(index, -table.shape[dim], table.shape[dim])
        return None if found is None else Finding("sparse_select", found[1], **elementwise(found[0]))
    found = outside(index, 0, table.shape[dim] if table.dim() else 1)
    return None if found is None else pick(call, table, dim, index, found)


def embedding_bag(call):
    index, table = call.arg(0, "input"), call.arg(1, "weight")
    if call.name == "torch.embedding_bag":
        index, table = table, index
    if index is None or index.is_floating_point():
        index, table = table, index
    mode = call.arg(6, "mode", default="mean")
    kernel = "bag_max" if mode in ("max", 2) else "bag_mean"
    found = outside(index, 0, table.shape[0])
    if found is None:
        return None
    quiet = call.again(index, index.clamp(0, table.shape[0] - 1))
    if call.version < (2, 8) and found[1]["kind"] == "below" and outside(index, -2 ** 62, table.shape[0]) is None:
        kernel = None
    return Finding(kernel, found[1], 0, (0, 1, 0), silent=quiet)


def unsorted(call):
    """Offsets of embedding_bag that go back: only CUDA looks."""
    offsets = call.arg(2, "offsets")
    if offsets is None or offsets.dim() != 1:
        return None
    at = first(offsets[1:] < offsets[:-1])
    if at is None:
        return None
    what = held(offsets, "below", int(offsets[at + 1]), int(offsets[at]), at + 1)
    return Finding("bag_offsets_max" if call.arg(6, "mode") in ("max", 2) else "bag_offsets", what, 0, (0, at, 0))


def gather(call):
    table, dim, index = call.arg(0, "input", "self"), call.arg(1, "dim"), call.arg(2, "index", "indices")
    if call.name.endswith("take_along_dim"):
        dim, index = call.arg(2, "dim"), call.arg(1, "indices")
    if dim is None:
        return None
    dim %= max(table.dim(), 1)
    found = outside(index, 0, table.shape[dim] if table.dim() else 1)
    if found is None:
        return None
    at, what = found
    strides = index.stride()
    rows = index.dim() > 1 and dim == 0 and all(s == 0 for s in strides[1:]) and \
        tuple(index.shape[1:]) == tuple(table.shape[1:])
    if rows and call.version >= (2, 8) and wide_rows(table, 0, index.shape[0]):
        return Finding("vectorized", what, what["position"][0], 0)
    return Finding("gather", what, **elementwise(at))


def scatter(call):
    into, dim, index = call.arg(0, "input", "self"), call.arg(1, "dim"), call.arg(2, "index")
    dim %= max(into.dim(), 1)
    found = outside(index, 0, into.shape[dim] if into.dim() else 1)
    if found is None:
        return None
    tensor = isinstance(call.arg(3, "src", "value"), call.torch.Tensor)
    return Finding("gather" if tensor else "scatter_fill", found[1], **elementwise(found[0]))


def rows_touched(kernel, low_is_negative):
    """Rule for index_fill, index_copy and index_add: one index a slice."""
    def rule(call):
        into, dim, index = call.arg(0, "input", "self"), call.arg(1, "dim"), call.arg(2, "index")
        dim %= max(into.dim(), 1)
        size = into.shape[dim] if into.dim() else 1
        found = outside(index, -size if low_is_negative else 0, size)
        if found is None:
            return None
        at, what = found
        if kernel == "add":
            return Finding("add_small" if index.numel() <= 16 else "add_large", what)
        return Finding(kernel, what, **elementwise(at * (into.numel() // max(size, 1))))
    return rule


def take_put(call):
    index = call.arg(1, "index")
    count = call.arg(0, "input", "self").numel()
    found = outside(index, -count, count)
    return None if found is None else Finding("take_put", found[1], **elementwise(found[0]))


def masked_scatter(call):
    mask, source = call.arg(1, "mask"), call.arg(2, "source")
    into = call.arg(0, "self", "input")
    ones = int(mask.expand(into.shape).sum())
    if ones <= source.numel():
        return None
    return Finding("masked_scatter", offence("above", ones, source.numel(), []))


def one_hot(call):
    values, classes = call.arg(0, "input", "tensor"), call.arg(1, "num_classes", default=-1)
    if classes != -1 and classes < 1:
        return Finding(None, host=RuntimeError("num_classes should be positive"))
    high = int(values.max()) + 1 if classes == -1 else classes
    found = outside(values, 0, high)
    return None if found is None else Finding("scatter_fill", found[1], **elementwise(found[0]))


def index(call):
    """x[...], x[...] = v and index_put_: only an index tensor asserts; a Python integer fails on the host."""
    torch = call.torch
    table, key = call.arg(0, "self", "input"), call.arg(1, "indices")
    explicit = not call.name.endswith("item__")
    items = tuple(key) if isinstance(key, tuple) or explicit else (key,)
    if not explicit and isinstance(key, list) and any(isinstance(k, (slice, list, torch.Tensor)) for k in key):
        items = tuple(key)
    taken = sum(_consumes(torch, item) for item in items)
    dim, found, chosen = 0, None, []
    for item in items:
        if item is None or item is True or item is False:
            dim += explicit
        elif item is Ellipsis:
            dim += table.dim() - taken
        elif isinstance(item, slice):
            dim += 1
        elif isinstance(item, int) or (isinstance(item, torch.Tensor) and item.dim() == 0 and not explicit
                                       and item.dtype not in (torch.bool, torch.uint8)):
            size = table.shape[dim]
            if not -size <= int(item) < size:
                return None
            dim += 1
        else:
            values = torch.as_tensor(item)
            if values.dtype in (torch.bool, torch.uint8):
                chosen.append((dim, None))
                dim += values.dim()
                continue
            chosen.append((dim, values))
            if found is None:
                size = table.shape[dim]
                found = outside(values, -size, size)
            dim += 1
    if found is None:
        return None
    at, what = found
    if explicit and call.arg(3, "accumulate", default=False):
        if call.version < (2, 0):
            return None
        return Finding("assert_async", what, condition="")
    row = 1
    for size in table.shape[dim:]:
        row *= size
    if call.name.endswith("__getitem__") and call.version >= (2, 8) and len(chosen) == 1 and \
            chosen[0][0] == 0 and len(items) == 1 and wide_rows(table, 0, chosen[0][1].numel()):
        return Finding("vectorized", what, at, 0)
    return Finding("index", what, **elementwise(at * row))


def _consumes(torch, item):
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item.dim()
    return 1


# ---- sampling

def multinomial(call):
    weights, count = call.arg(0, "input", "self"), call.arg(1, "num_samples", default=1)
    repeat = call.arg(2, "replacement", default=False)
    nan, inf, negative = weights != weights, weights.abs() == float("inf"), weights < 0
    kind, at = None, None
    for word, bad in (("nan", nan), ("inf", inf), ("negative", negative)):
        hit = first(bad)
        if hit is not None and (at is None or hit < at):
            kind, at = word, hit
    if kind is None:
        rows = weights.reshape(-1, weights.shape[-1]).sum(-1)
        zero = first(rows <= 0)
        if zero is None:
            return None
        what = offence("zero_sum", float(rows[zero]), "0", [zero] if weights.dim() > 1 else [],
                       weights.shape[0] if weights.dim() > 1 else None)
    else:
        value = float(weights.reshape(-1)[at])
        what = held(weights, kind, value, "0" if kind == "negative" else None, at)
    if call.version >= (2, 1) and (not repeat or count == 1):
        return Finding("assert_async", what, message="invalid multinomial distribution (sum of probabilities <= 0)"
                       if kind is None else "probability tensor contains either `inf`, `nan` or element < 0")
    if not repeat:
        return Finding(None, what)
    thread = what["position"][-1] if kind else 0
    if count == 1:
        return Finding("once_" + (kind or "zero"), what, 0, thread)
    return Finding("renorm" if kind == "negative" else "cumdist", what, 0, thread if kind == "negative" else 0)


def bernoulli(call):
    values = call.arg(0, "input", "self")
    if call.name.endswith("bernoulli_"):
        values = call.arg(1, "p")
    if not isinstance(values, call.torch.Tensor):
        return None
    found = probability(values)
    if found is None:
        return None
    at, what = found
    group = at // 4
    flat = values.reshape(-1)[group * 4:group * 4 + 4]
    bad = (~((flat >= 0) & (flat <= 1))).nonzero().reshape(-1)
    last = int(bad[-1])             # the kernel checks p4 first
    return Finding("bernoulli_%d" % (last + 1), what, group // 512, group % 512)


def poisson(call):
    rates = call.arg(0, "input", "self")
    at = first(~(rates >= 0))
    if at is None:
        return None
    value = float(rates.reshape(-1)[at])
    what = held(rates, "nan" if value != value else "negative", value, "0", at)
    return Finding("poisson", what, **elementwise(at))


# ---- the rest

def repeat_interleave(call):
    if call.kwargs.get("output_size") is None:
        return None                 # without output_size both devices check on the host
    alone = len(call.args) + len({"input", "self", "repeats"}.intersection(call.kwargs)) == 1
    repeats = call.arg(0 if alone else 1, "repeats")
    if not isinstance(repeats, call.torch.Tensor) or not repeats.numel():
        return None
    if int(repeats.min()) < 0:
        return Finding("repeat", outside(repeats, 0, 2 ** 62)[1])
    total = int(repeats.sum())
    if total == call.kwargs["output_size"] or (repeats.numel() == 1 and not alone):
        return None
    return Finding("repeat_size", offence("other", total, call.kwargs["output_size"], []))


def assert_async(call):
    message = call.arg(1, "assert_msg")
    return Finding("assert_async", offence("other", "0", None, []), message=message)


def max_unpool(call):
    index = call.arg(1, "indices")
    found = re.search(r"max index: (-?\d+) \(output volumes are of size ([\dx]+)", call.text)
    if not found:
        return None
    volume = 1
    for size in found.group(2).split("x"):
        volume *= int(size)
    at, what = outside(index, 0, volume) or (0, offence("above", found.group(1), volume, []))
    return Finding("unpool_3d" if "3d" in call.name else "unpool_2d", what, **elementwise(at))


def segment(call):
    lengths = call.kwargs.get("lengths")
    found = outside(lengths, 0, 2 ** 62) if lengths is not None else None
    return Finding("segment", found[1] if found else None)


def sparse_invariant(call):
    """Indices of a compressed sparse tensor: the kernel prints the names of its macro's arguments."""
    what = None
    found = re.search(r"0 <= (col|row)_indices < (ncols|nrows)", call.text)
    size = call.arg(3, "size")
    if found and size is not None:
        what = outside(call.arg(1, found.group(1) + "_indices"), 0, size[-1 if found.group(1) == "col" else -2])
    return Finding("sparse_invariant", what[1] if what else offence("other", "", None, []))


RULES = {
    "cross_entropy": nll, "nll_loss": nll, "binary_cross_entropy": bce,
    "multi_margin_loss": multi_margin, "multilabel_margin_loss": multilabel_margin,
    "embedding": embedding, "embedding_bag": embedding_bag, "index_select": index_select,
    "gather": gather, "take_along_dim": gather, "scatter": scatter, "scatter_add": scatter,
    "scatter_reduce": scatter, "index_fill": rows_touched("index_fill", True),
    "index_copy": rows_touched("index_copy", False), "index_add": rows_touched("add", False),
    "index_reduce": rows_touched("add", False), "take": take_put, "put": take_put,
    "masked_scatter": masked_scatter, "one_hot": one_hot, "__getitem__": index, "__setitem__": index,
    "index_put": index, "_index_put_impl": index, "multinomial": multinomial, "bernoulli": bernoulli,
    "poisson": poisson, "repeat_interleave": repeat_interleave, "_assert_async": assert_async,
    "max_unpool1d": max_unpool, "max_unpool2d": max_unpool, "max_unpool3d": max_unpool,
    "segment_reduce": segment, "backward": backward, "grad": backward,
    "sparse_csr_tensor": sparse_invariant, "sparse_csc_tensor": sparse_invariant,
    "sparse_bsr_tensor": sparse_invariant, "sparse_bsc_tensor": sparse_invariant,
    "sparse_compressed_tensor": sparse_invariant,
}


# what CUDA checks and the CPU does not, or too late to survive it: asked before the call
UNCHECKED = {"embedding_bag": unsorted, "repeat_interleave": repeat_interleave}


def diagnose(call):
    """The finding for a failed call, or None when CUDA raises the same error from the host."""
    leaf = call.name.rsplit(".", 1)[-1]
    rule = RULES.get(leaf)
    if rule is None and leaf.endswith("_") and not leaf.endswith("__"):
        rule = RULES.get(leaf[:-1])
    if rule is None:
        return None
    # with byte targets the text of the CPU holds the target as a raw byte, which need not be UTF-8
    if rule is not assert_async and not VALUE_ERROR.search(call.text) and not (
            rule is nll and (isinstance(call.error, UnicodeDecodeError) or not call.text)):
        return None
    try:
        return rule(call)
    except Exception:
        return None
