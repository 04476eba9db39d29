"""What a launch that does not block leaves behind: which calls wait for the device, and what a failed kernel returns.

Invariant: a failure is held from its launch to the first call that waits for the device, or that uses a kernel for
the first time (loading it takes longer than the device needs to fail); what the host sees until then has the shapes
and the graph of a good run, and values that no program can read.
This file must not decide which kernel asserts.
"""

# calls that copy to the host or need a size from the device
_WAITS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "nonzero",
          "argwhere", "masked_select", "unique", "unique_consecutive", "_unique2", "_unique", "equal", "allclose",
          "is_nonzero", "repeat_interleave", "bincount", "histc", "combinations", "_local_scalar_dense", "coalesce",
          "to_sparse", "to_dense", "inverse", "cholesky", "svd", "qr", "det", "logdet", "slogdet")
# calls that need the handle of cuBLAS
_PRODUCTS = ("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "addmm", "addmv", "addbmm", "baddbmm", "addmm_",
             "baddbmm_", "__matmul__", "__rmatmul__", "__imatmul__", "linear", "bilinear", "einsum", "tensordot",
             "chain_matmul", "multi_head_attention_forward", "scaled_dot_product_attention", "cdist", "lstm", "gru",
             "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
CUBLAS = "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`"


def _functions(torch, names):
    owners = (torch.Tensor, torch, torch.nn.functional, torch._C._nn, torch._C._VariableFunctions, torch.linalg)
    found = (getattr(owner, name, None) for owner in owners for name in names)
    return frozenset(func for func in found if callable(func))


class Launches:
    """What this process has launched, and what it may launch while a failure is held."""

    def __init__(self, state):
        self.state = state
        self.used = state.used
        self.waits = _functions(state.torch, _WAITS)
        self.products = _functions(state.torch, _PRODUCTS)

    def goes_on(self, func):
        """Whether a call returns although an earlier launch has failed."""
        return self.state.held and func in self.used and func not in self.waits

    def error(self, func):
        """What a call on a dead device raises."""
        if func in self.products and self.used.isdisjoint(self.products):
            error = RuntimeError(CUBLAS)
            self.state.surface(error)
            return error
        return self.state.sticky()

    def raises_at_once(self, call):
        """Whether the failed call itself runs into the failure: it launches a second kernel, which must be loaded."""
        leaf = _leaf(call)
        more = _FOLLOWED.get(leaf)
        return more is not None and call.func not in self.used and more(call)


def _leaf(call):
    leaf = call.name.rsplit(".", 1)[-1]
    return leaf if leaf.endswith("__") else leaf.rstrip("_").lstrip("_")


def _always(call):
    return True


# calls whose asserting kernel is followed by another one
_FOLLOWED = {
    "binary_cross_entropy": lambda call: call.arg(5, "reduction", default="mean") != "none",
    "multi_margin_loss": lambda call: call.arg(7, "reduction", default="mean") != "none",
    "cross_entropy": lambda call: call.arg(7, "label_smoothing", default=0.0) > 0,
    "multinomial": _always, "masked_scatter": _always, "segment_reduce": _always,
    "index_put": lambda call: bool(call.arg(3, "accumulate", default=False)),
    "repeat_interleave": lambda call: call.arg(1, "repeats") is not None,
}


def left_behind(call):
    """What the failed call returns where nothing waits for it; raises where that cannot be had."""
    return _LEFT[_leaf(call)](call)


# ---- how each call is repaired: the argument that trips the kernel is replaced by one that does not

def _zeros(at, *names):
    """An index or a target of zeros."""
    def repair(call):
        old = call.arg(at, *names)
        return call.again(old, _zero(call, old))()
    return repair


def _zero(call, value):
    return call.torch.zeros_like(value)


def _embedding(call):
    at = 1 if call.name == "torch.embedding" else 0
    index = call.arg(at, "input", "indices")
    return call.again(index, _zero(call, index))()


def _embedding_bag(call):
    """Indices come first or second; offsets that go back become sorted ones."""
    first, second = call.arg(0, "input", "weight"), call.arg(1, "weight", "input")
    index, table = (second, first) if first.is_floating_point() else (first, second)
    offsets = call.arg(2, "offsets")
    swap = {id(index): _zero(call, index), id(table): table}
    if offsets is not None:
        swap[id(offsets)] = offsets.sort()[0]
    args = [swap.get(id(value), value) for value in call.args]
    return call.func(*args, **{key: swap.get(id(value), value) for key, value in call.kwargs.items()})


def _between(call, value):
    """Probabilities that are some, with the graph of the old ones."""
    return call.torch.nan_to_num(value, 0.5).clamp(0, 1)


def _bce(call):
    args = [_between(call, value) if at < 2 else value for at, value in enumerate(call.args)]
    kwargs = {key: _between(call, value) if key in ("input", "target") else value
              for key, value in call.kwargs.items()}
    return call.func(*args, **kwargs)


def _one_hot(call):
    values, classes = call.arg(0, "input", "tensor"), call.arg(1, "num_classes", default=-1)
    if classes == -1:
        classes = int(values.max()) + 1
    return call.torch.nn.functional.one_hot(_zero(call, values), classes)


def _key(call, value):
    """The same key with every index at zero; masks, slices and integers stay."""
    torch = call.torch
    if isinstance(value, torch.Tensor):
        return value if value.dtype in (torch.bool, torch.uint8) else _zero(call, value)
    if isinstance(value, tuple):
        return tuple(_key(call, item) for item in value)
    if isinstance(value, list) and value and not isinstance(value[0], bool):
        return [_key(call, item) if isinstance(item, (list, tuple, torch.Tensor)) else 0 if isinstance(item, int)
                else item for item in value]
    return value


def _indexed(call):
    args = (call.args[0], _key(call, call.args[1])) + tuple(call.args[2:])
    return call.func(*args, **call.kwargs)


def _multinomial(call):
    weights = call.arg(0, "input", "self")
    return call.again(weights, call.torch.ones_like(weights))()


def _sampled(call):
    """bernoulli(p), x.bernoulli_(p) and poisson(rate)."""
    at = 1 if call.name.endswith("bernoulli_") else 0
    old = call.arg(at, "p", "input")
    return call.again(old, _between(call, old))()


def _repeated(call):
    torch, size = call.torch, call.kwargs["output_size"]
    table = call.arg(0, "self", "input")
    if call.arg(1, "repeats") is None:
        return torch.zeros(size, dtype=table.dtype)
    dim = call.arg(2, "dim")
    if dim is None:
        dim, table = 0, table.reshape(-1)
    return table.index_select(dim, torch.zeros(size, dtype=torch.long))


_LEFT = {
    "cross_entropy": _zeros(1, "target"), "nll_loss": _zeros(1, "target"), "binary_cross_entropy": _bce,
    "multi_margin_loss": _zeros(1, "target"), "embedding": _embedding, "embedding_bag": _embedding_bag,
    "index_select": _zeros(2, "index"), "gather": _zeros(2, "index"), "take_along_dim": _zeros(1, "indices"),
    "scatter": _zeros(2, "index"), "scatter_add": _zeros(2, "index"), "scatter_reduce": _zeros(2, "index"),
    "index_fill": _zeros(2, "index"), "index_copy": _zeros(2, "index"), "index_add": _zeros(2, "index"),
    "index_reduce": _zeros(2, "index"), "take": _zeros(1, "index"), "put": _zeros(1, "index"),
    "masked_scatter": _zeros(1, "mask"), "one_hot": _one_hot, "__getitem__": _indexed, "__setitem__": _indexed,
    "index_put": _indexed, "index_put_impl": _indexed, "multinomial": _multinomial, "bernoulli": _sampled,
    "poisson": _sampled, "repeat_interleave": _repeated, "assert_async": lambda call: None,
    "max_unpool1d": _zeros(1, "indices"), "max_unpool2d": _zeros(1, "indices"), "max_unpool3d": _zeros(1, "indices"),
}
