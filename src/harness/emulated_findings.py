"""What a rule works with: the call that failed, the value that trips the kernel, where in the grid it runs.

Invariant: positions count in the tensor that holds the value, not in memory; nothing here changes an argument.
This file must not know any operator.
"""


class Finding:
    """What a rule found: kernel (None: CUDA is silent or speaks from the host), offence, and where it ran."""

    __slots__ = ("kernel", "offence", "block", "thread", "message", "condition", "silent", "host")

    def __init__(self, kernel, offence=None, block=0, thread=0, message=None, condition=None,
                 silent=None, host=None):
        self.kernel = kernel
        self.offence = offence
        self.block = block
        self.thread = thread
        self.message = message
        self.condition = condition
        self.silent = silent    # what to run instead where this version of CUDA does not check
        self.host = host        # exception that CUDA raises from the host instead


class Call:
    """One torch call: function, its arguments by position or name, the CPU's error, the torch version."""

    def __init__(self, torch, version, func, name, args, kwargs, error):
        self.torch = torch
        self.version = version
        self.func = func
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.error = error
        self.text = None if error is None else str(error)

    def arg(self, at, *names, default=None):
        """Argument by position, else by one of its names."""
        if at is not None and at < len(self.args):
            return self.args[at]
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return default

    def again(self, old, new):
        """A call with one argument replaced, to be made later."""
        args = tuple(new if a is old else a for a in self.args)
        kwargs = {k: new if v is old else v for k, v in self.kwargs.items()}
        return lambda: self.func(*args, **kwargs)


# what the CPU refuses before any operator, and CUDA launches
_ATEN = {"one_hot": "aten.scatter_.value", "nll_2d_back": "aten.nll_loss_backward.default",
         "nll_1d_back": "aten.nll_loss_backward.default", "nll_none_back": "aten.nll_loss_backward.default",
         "nll_image_back": "aten.nll_loss2d_backward.default",
         "fractional_2d": "aten.fractional_max_pool2d_backward.default",
         "fractional_3d": "aten.fractional_max_pool3d_backward.default"}


def aten(torch, call, finding):
    """Name of the aten operator that failed: the call is made once more, and must fail with the same words.

    A call that failed has done nothing, or to a device that is dead now; the random numbers are put back.
    """
    from .watch import dispatched
    known = _ATEN.get(finding.kernel) or _ATEN.get(call.name.rsplit(".", 1)[-1])
    if known or call.error is None or call.name.endswith("backward"):
        return known
    numbers = torch.get_rng_state()
    try:
        dispatched(lambda: call.func(*call.args, **call.kwargs))
    except Exception as error:
        return getattr(error, "_reduce_aten", None) if str(error) == call.text else None
    finally:
        torch.set_rng_state(numbers)
    return None


def offence(kind, value, limit, position, rows=None):
    """The offending value as outcome.json has it: value and limit as text, position a list.

    `rows` is the length of the first dimension that the position counts in; the witness takes it out again.
    """
    return {"kind": kind, "value": str(value), "limit": None if limit is None else str(limit),
            "position": position, "sample": None, "rows": rows}


def held(values, kind, value, limit, at):
    """Offence of element `at` of a tensor."""
    return offence(kind, value, limit, unravel(at, values.shape), values.shape[0] if values.dim() else None)


def unravel(flat, shape):
    """Position of a flat index in a shape."""
    position = []
    for size in reversed(shape):
        position.append(flat % size)
        flat //= size
    return position[::-1]


def first(bad):
    """Flat index of the first True, or None."""
    hits = bad.reshape(-1).nonzero()
    return int(hits[0]) if hits.numel() else None


def outside(values, low, high, skip=None):
    """First integer not in [low, high) as (flat, offence), or None; `skip` is a value that is allowed."""
    bad = (values < low) | (values >= high)
    if skip is not None:
        bad &= values != skip
    at = first(bad)
    if at is None:
        return None
    value = int(values.reshape(-1)[at])
    kind, limit = ("above", high) if value >= high else ("below", low)
    return at, held(values, kind, value, limit, at)


def elementwise(at):
    """Block and thread of an element in the usual grid: 128 threads with four elements each."""
    return {"block": at // 512, "thread": at % 128}


def probability(values):
    """First value that is not in [0, 1], NaN among them, as (flat, offence), or None."""
    at = first(~((values >= 0) & (values <= 1)))
    if at is None:
        return None
    value = float(values.reshape(-1)[at])
    kind = "nan" if value != value else "above" if value > 1 else "below"
    limit = None if kind == "nan" else "1" if kind == "above" else "0"
    return at, held(values, kind, value, limit, at)
