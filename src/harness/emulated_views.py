"""Calls that need less than the usual care: reads of shape and the like, views, calls that may mix devices;
and the texts with which CUDA refuses a mix.

Invariant: a view starts no kernel, so it works on a dead device; a call listed as free to mix keeps the tag of
its first tensor.  This file must not raise the sticky error itself.
"""

from .emulated_state import TAG

READS = ("shape", "dtype", "ndim", "layout", "requires_grad", "grad_fn", "is_leaf", "names", "is_sparse",
         "is_quantized", "is_meta", "_version", "output_nr", "is_mkldnn", "itemsize", "nbytes", "retains_grad",
         "is_mps", "is_xpu", "is_xla", "is_nested", "_backward_hooks", "_post_accumulate_grad_hooks", "name",
         "is_sparse_csr", "is_vulkan", "is_ort", "is_ipu", "is_hpu", "is_mtia", "is_maia", "grad_dtype")
READ_CALLS = ("size", "dim", "stride", "numel", "nelement", "ndimension", "element_size", "is_contiguous",
              "is_floating_point", "is_complex", "is_signed", "data_ptr", "storage_offset", "__len__",
              "retain_grad", "has_names", "is_inference", "is_conj", "is_neg", "is_shared", "__hash__",
              "requires_grad_", "storage_type", "dim_order", "_is_view", "is_set_to", "is_same_size", "__dir__",
              "_is_zerotensor", "is_coalesced", "sparse_dim", "dense_dim", "is_distributed", "__deepcopy__")
VIEW = object()     # handler of a call that starts no kernel
VIEWS = ("view", "detach", "detach_", "transpose", "t", "permute", "squeeze", "unsqueeze", "expand", "narrow",
         "select", "split", "chunk", "unbind", "flatten", "unflatten", "as_strided", "swapaxes", "swapdims",
         "movedim", "moveaxis", "diagonal", "alias", "real", "tensor_split", "squeeze_", "unsqueeze_",
         "transpose_", "t_", "view_as_real", "view_as_complex", "split_with_sizes", "unsafe_chunk",
         "unsafe_split", "adjoint", "hsplit", "vsplit", "dsplit")
VIEW_READS = ("T", "mT", "H", "mH", "data", "real", "imag", "_base")
SHAPE_OF_OTHER = ("view_as", "expand_as", "reshape_as", "resize_as_", "is_same_size")
FREE = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "rnn_relu", "ctc_loss",
        "_has_compatible_shallow_copy_type", "result_type", "broadcast_tensors", "meshgrid", "atleast_1d",
        "atleast_2d", "atleast_3d", "broadcast_shapes", "is_same_size", "tensor_split", "_use_cudnn_ctc_loss")
_UNSAFE = ("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
           "Many models use a sigmoid layer right before the binary cross entropy layer.\nIn this case, combine the two "
           "layers using torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.  "
           "binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast.")
_TYPES = {"float32": "Float", "float64": "Double", "float16": "Half", "int64": "Long", "int32": "Int",
          "uint8": "Byte", "bool": "Bool", "bfloat16": "BFloat16", "int16": "Short", "int8": "Char"}

# operators that name the argument: leaf -> (method, (position, name) in the order in which the method checks them)
_NAMED = {
    "linear": ("addmm", ((2, "self"), (0, "mat1"), (1, "mat2"))),
    "addmm": ("addmm", ((0, "self"), (1, "mat1"), (2, "mat2"))),
    "matmul": ("mm", ((0, "self"), (1, "mat2"))), "mm": ("mm", ((0, "self"), (1, "mat2"))),
    "bmm": ("bmm", ((0, "self"), (1, "mat2"))), "embedding": ("_index_select", ((1, "self"), (0, "index"))),
    "index_select": ("_index_select", ((0, "self"), (2, "index"))), "gather": ("gather", ((0, "self"), (2, "index"))),
    "scatter_": ("scatter__src", ((0, "self"), (2, "index"), (3, "src"))),
    "scatter_add_": ("scatter_add_", ((0, "self"), (2, "index"), (3, "src"))),
    "index_add_": ("index_add_", ((0, "self"), (2, "index"), (3, "source"))), "cat": ("cat", ((0, "tensors"),)),
    "cross_entropy": ("nll_loss_forward", ((0, "self"), (1, "target"), (2, "weight"))),
    "nll_loss": ("nll_loss_forward", ((0, "self"), (1, "target"), (2, "weight"))),
    "layer_norm": ("_native_layer_norm", ((0, "input"), (2, "weight"), (3, "bias"))),
    "batch_norm": ("_cudnn_batch_norm", ((0, "input"), (1, "running_mean"), (3, "weight"))),
    "binary_cross_entropy": ("_binary_cross_entropy", ((0, "self"), (1, "target"), (2, "weight"))),
    "masked_scatter_": ("_masked_scatter_", ((0, "self"), (1, "mask"), (2, "source"))),
}


def build(state, generic, handlers):
    """Adds the handlers of this file."""
    torch = state.torch
    Tensor = torch.Tensor

    untouched = None    # the mode passes such a call on without looking

    def free(func, args, kwargs):
        return generic(func, args, kwargs, False)

    def of_self(func, args, kwargs):
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            setattr(result, TAG, getattr(args[0], TAG))
        return result

    def each(func, args, kwargs):
        """As many tensors come out as went in, each where it was."""
        flat = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        result = func(*args, **kwargs)
        if isinstance(result, (list, tuple)) and len(result) == len(flat):
            for old, new in zip(flat, result):
                setattr(new, TAG, getattr(old, TAG, None))
        elif isinstance(result, Tensor):
            setattr(result, TAG, getattr(flat[0], TAG, None))
        return result

    def packed(func, args, kwargs):
        """Packing takes its lengths from the host and answers batch sizes there."""
        name = func.__name__
        lengths = args[1]
        if getattr(lengths, TAG, None) is not None:
            if name == "_pack_padded_sequence":
                raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got %dD %s %s tensor" % (
                    lengths.dim(), state.devices[getattr(lengths, TAG)],
                    _TYPES.get(str(lengths.dtype).split(".")[-1], "")))
        tag = getattr(args[0], TAG, None)
        if tag is not None:
            state.check()
        first, second = func(*args, **kwargs)
        setattr(first, TAG, tag)
        return first, second

    def subscript(func, args, kwargs):
        """x[i]: basic indexing is a view; an index tensor may lie on the CPU, but not the other way round."""
        tensor, key = args[0], args[1]
        tag = getattr(tensor, TAG)
        tensors = []
        _index_tensors(Tensor, key, tensors)
        if tag is None:
            if any(getattr(t, TAG) is not None for t in tensors if t.dim()):
                raise RuntimeError("indices should be either on cpu or on the same device as the indexed "
                                   "tensor (cpu)")
            if len(args) > 2 and isinstance(args[2], Tensor) and getattr(args[2], TAG) is not None and args[2].dim():
                state.check()   # a copy between devices where the key is basic
                if tensors:
                    raise RuntimeError("Expected all tensors to be on the same device, but found at least two "
                                       "devices, cpu and cuda:%d!" % getattr(args[2], TAG))
            return func(*args, **kwargs)
        value = args[2] if len(args) > 2 else None
        if tensors and isinstance(value, Tensor) and getattr(value, TAG) is None and value.dim() and \
                state.local.backward is None:
            raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, "
                               "cuda:%d and cpu!" % tag)
        if state.held and any(t.dtype in (torch.bool, torch.uint8) for t in tensors):
            state.check()           # a mask asks the device how many
        basic = not tensors and len(args) < 3 and not _has_list(key)
        return generic(func, args, kwargs, False, basic)

    def bce(func, args, kwargs):
        if torch.is_autocast_enabled() and any(getattr(a, TAG, None) is not None for a in args):
            raise RuntimeError(_UNSAFE)
        return generic(func, args, kwargs)

    for name in READS:
        prop = getattr(Tensor, name, None)
        if prop is not None and hasattr(prop, "__get__"):
            handlers[prop.__get__] = untouched
    for name in VIEW_READS:
        prop = getattr(Tensor, name, None)
        if prop is not None and hasattr(prop, "__get__"):
            handlers[prop.__get__] = VIEW
    for names, handler in ((READ_CALLS, untouched), (VIEWS, VIEW), (FREE, free), (SHAPE_OF_OTHER, of_self)):
        for name in names:
            for owner in (Tensor, torch):
                func = getattr(owner, name, None)
                if callable(func):
                    handlers[func] = handler
    for name in ("_pack_padded_sequence", "_pad_packed_sequence"):
        handlers[getattr(torch._C._VariableFunctions, name, None)] = packed
    for name in ("broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"):
        handlers[getattr(torch, name)] = each
    handlers[Tensor.requires_grad.__set__] = untouched
    handlers[torch.nn.functional.ctc_loss] = free
    handlers[torch.nn.functional.binary_cross_entropy] = bce
    handlers[Tensor.__getitem__] = subscript
    handlers[Tensor.__setitem__] = subscript
    for func in (torch.device, getattr(torch._C, "_set_grad_enabled", None), torch.is_grad_enabled,
                 getattr(torch._C._nn, "_parse_to", None), torch.set_grad_enabled):
        if func is not None:
            handlers[func] = untouched
    handlers.pop(None, None)


def _index_tensors(Tensor, key, out):
    if isinstance(key, Tensor):
        out.append(key)
    elif isinstance(key, (tuple, list)):
        for item in key:
            if isinstance(item, (Tensor, tuple, list)):
                _index_tensors(Tensor, item, out)


def _has_list(key):
    if isinstance(key, tuple):
        return any(_has_list(k) for k in key)
    return isinstance(key, list) or type(key).__name__ == "ndarray"


def refuse(state, func, args, kwargs, found, tag):
    """Raises what CUDA raises for operands on different devices; returns where this call allows them."""
    name = getattr(func, "__name__", "")
    cuda = "cuda:%d" % tag
    odd = next(t for t in found if getattr(t, TAG) != tag and t.dim())
    where = str(state.device(getattr(odd, TAG)))
    version = state.version
    if name.startswith("conv") and len(args) > 1:
        kinds = ["torch.%s%sTensor" % ("" if getattr(t, TAG) is None else "cuda.",
                                       _TYPES.get(str(t.dtype).split(".")[-1], "Float")) for t in args[:2]]
        if kinds[0] != kinds[1]:
            raise RuntimeError("Input type (%s) and weight type (%s) should be the same" % tuple(kinds))
    if name.startswith("masked_fill"):
        raise RuntimeError("expected self and mask to be on the same device, but got mask on %s and self on %s"
                           % tuple(str(state.device(getattr(t, TAG))) for t in (found[1], found[0])))
    method, order = _NAMED.get(name, (None, ()))
    if method == "addmm" and name == "linear" and (len(args) < 3 or args[2] is None):
        method, order = "mm", ((0, "self"), (1, "mat2"))
    common = odd = label = None
    for at, word in order:
        given = args[at] if at < len(args) else kwargs.get(word)
        for value in given if isinstance(given, (list, tuple)) else (given,):
            if not isinstance(value, state.torch.Tensor):
                continue
            place = str(state.device(getattr(value, TAG)))
            if common is None:
                common = place
            elif odd is None and place != common:
                odd, label = place, word
    if odd is None:
        raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, %s "
                           "and %s!" % (cuda, where))
    wrapper = "wrapper_CUDA_" if version >= (2, 0) else "wrapper_"
    wrapper += method
    if version >= (2, 7):
        raise RuntimeError("Expected all tensors to be on the same device, but got %s is on %s, different from "
                           "other tensors on %s (when checking argument in method %s)" % (label, odd, common, wrapper))
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, %s and %s! "
                       "(when checking argument for argument %s in method %s)" % (odd, common, label, wrapper))


def in_float(torch, func, args, kwargs):
    """Half precision where the CPU has no such kernel: computed in float32 and rounded."""
    half = torch.float16

    def up(value):
        if isinstance(value, torch.Tensor):
            return value.float() if value.dtype == half else value
        if isinstance(value, (list, tuple)):
            return type(value)(up(v) for v in value) if type(value) in (list, tuple) else value
        return value

    def down(value):
        if isinstance(value, torch.Tensor):
            return value.to(half) if value.dtype == torch.float32 else value
        if type(value) in (list, tuple):
            return type(value)(down(v) for v in value)
        return value

    raised = [up(a) for a in args]
    result = down(func(*raised, **{k: up(v) for k, v in kwargs.items()}))
    name = getattr(func, "__name__", "")
    if name.endswith("_") and not name.endswith("__") and isinstance(args[0], torch.Tensor):
        args[0].copy_(result)
        return args[0]
    return result
