"""Tensor calls whose device matters: moves, factories, type names, copies to the host, printing, data and grad.

Invariant: values are those of the plain CPU call; only tags are added, and a move to another device is a copy,
as it is between real devices.  Each handler is called with the mode off, so what it calls is plain torch.
This file must not decide what an error means.
"""

from .emulated_state import FOREIGN, TAG

LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
NEW = ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "new_tensor")
FACTORIES = (
    "empty", "empty_permuted", "empty_strided", "ones", "zeros", "full", "arange", "range", "linspace",
    "logspace", "eye", "rand", "randn", "randint", "randperm", "tensor", "as_tensor", "asarray",
    "scalar_tensor", "tril_indices", "triu_indices", "bartlett_window", "blackman_window", "hamming_window",
    "hann_window", "kaiser_window", "sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor",
    "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "from_file", "normal")
OF_DATA = ("tensor", "as_tensor", "asarray", "sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor",
           "sparse_bsr_tensor", "sparse_bsc_tensor", "sparse_compressed_tensor", "normal")


def build(state, look, mark, handlers):
    """Adds the handlers of this file; `look(x)` finds a tag in a value, `mark(x, tag)` tags a result."""
    torch = state.torch
    Tensor = torch.Tensor

    def on(owner, names, handler):
        for name in names:
            func = getattr(owner, name, None)
            if func is not None:
                handlers[func] = handler

    def getter(name, handler):
        prop = getattr(Tensor, name, None)
        if prop is not None and hasattr(prop, "__get__"):
            handlers[prop.__get__] = handler

    def tag_of(value):
        return getattr(value, TAG, None)

    # ---- where am I

    def get_device_attr(func, args, kwargs):
        tag = tag_of(args[0])
        return func(*args, **kwargs) if tag is None else state.devices[tag]

    def is_cuda(func, args, kwargs):
        return tag_of(args[0]) is not None or func(*args, **kwargs)

    def is_cpu(func, args, kwargs):
        return tag_of(args[0]) is None and func(*args, **kwargs)

    def get_device(func, args, kwargs):
        tag = tag_of(args[0] if args else kwargs["input"])
        return func(*args, **kwargs) if tag is None else tag

    getter("device", get_device_attr)
    getter("is_cuda", is_cuda)
    getter("is_cpu", is_cpu)
    on(Tensor, ("get_device",), get_device)
    on(torch, ("get_device",), get_device)

    # ---- moves

    def moved(tensor, target, change, keep, waits=True):
        """`change` keeps the device of its result apart from the old one's memory where the device differs."""
        source = tag_of(tensor)
        if source is not None or target is not None:
            if source != target and (waits or not state.held or not getattr(tensor, "_reduce_pinned", False)):
                state.check()
        result = change(source != target or keep)
        if result is tensor:
            return result
        setattr(result, TAG, target)
        return result

    def to(func, args, kwargs):
        tensor, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
        other = kwargs.pop("other", None)
        target = tag_of(tensor)
        lead = rest[0] if rest else None
        if isinstance(lead, Tensor) or other is not None:
            if other is None:
                other = rest.pop(0)
            target = tag_of(other)
            dtype = other.dtype
            if target is None and other.device.type != "cpu":
                return func(*args, **kwargs)
        else:
            device = kwargs.pop("device", None)
            if isinstance(lead, (str, torch.device)) or (isinstance(lead, int) and not isinstance(lead, bool)):
                device = rest.pop(0)
            elif rest and lead is None:
                rest.pop(0)
            if device is not None:
                target = state.place(device)
                if target is FOREIGN:
                    result = func(*args, **dict(kwargs, device=device) if device is not lead else kwargs)
                    return result
            dtype = rest.pop(0) if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)) else None
            dtype = kwargs.pop("dtype", dtype) or tensor.dtype
        rest.extend([False] * (2 - len(rest)))
        copy = kwargs.pop("copy", rest[1])
        waits = not kwargs.pop("non_blocking", rest[0])
        if kwargs.get("memory_format") is None:
            kwargs.pop("memory_format", None)
        if tensor.device.type != "cpu":
            return func(*args, **kwargs)

        def change(apart):
            return Tensor.to(tensor, dtype, False, bool(apart), **kwargs)
        return moved(tensor, target, change, copy, waits)

    def cuda(func, args, kwargs):
        tensor = args[0]
        device = args[1] if len(args) > 1 else kwargs.get("device")
        if isinstance(device, (str, torch.device)) and torch.device(device).type != "cuda":
            raise RuntimeError("Invalid device, must be cuda device")
        target = state.use(state.local.current) if device is None else state.place(device)
        form = kwargs.get("memory_format")
        more = {} if form is None else {"memory_format": form}
        waits = not kwargs.get("non_blocking", len(args) > 2 and args[2])
        return moved(tensor, target, lambda apart: Tensor.to(tensor, tensor.dtype, False, apart, **more), False, waits)

    def cpu(func, args, kwargs):
        tensor = args[0]
        if tag_of(tensor) is None:
            return func(*args, **kwargs)
        return moved(tensor, None, lambda apart: Tensor.to(tensor, tensor.dtype, False, True), False)

    on(Tensor, ("to",), to)
    on(Tensor, ("cuda",), cuda)
    on(Tensor, ("cpu",), cpu)

    def type_name(func, args, kwargs):
        tensor = args[0]
        wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
        tag = tag_of(tensor)
        if wanted is None:
            name = func(tensor)
            return name if tag is None else name.replace("torch.", "torch.cuda.", 1)
        if isinstance(wanted, type) and hasattr(wanted, "reduce_name"):
            wanted = wanted.reduce_name
        if isinstance(wanted, type) or (isinstance(wanted, str) and wanted.startswith("torch.")):
            name = wanted if isinstance(wanted, str) else wanted.__module__ + "." + wanted.__name__
            target = None
            if name.startswith("torch.cuda."):
                target = state.use(state.local.current)
                name = name.replace("torch.cuda.", "torch.", 1)
            return moved(tensor, target,
                         lambda apart: func(tensor.clone() if apart else tensor, name), False)
        return moved(tensor, tag, lambda apart: func(tensor, wanted), False)

    def type_as(func, args, kwargs):
        tensor, other = args[0], args[1] if len(args) > 1 else kwargs["other"]
        return moved(tensor, tag_of(other), lambda apart: Tensor.to(tensor, other.dtype, False, apart), False)

    on(Tensor, ("type",), type_name)
    on(Tensor, ("type_as",), type_as)

    def pin_memory(func, args, kwargs):
        tensor = args[0]
        if tag_of(tensor) is not None:
            raise RuntimeError("cannot pin '%s' only dense CPU tensors can be pinned"
                               % tensor.type().replace("torch.", "torch.cuda.", 1))
        if getattr(tensor, "_reduce_pinned", False):
            return tensor
        result = tensor.detach().clone()
        result._reduce_pinned = True
        return result

    def is_pinned(func, args, kwargs):
        return getattr(args[0], "_reduce_pinned", False)

    on(Tensor, ("pin_memory",), pin_memory)
    on(Tensor, ("is_pinned",), is_pinned)

    # ---- factories

    def factory(name):
        of_data = name in OF_DATA

        def make(func, args, kwargs):
            device = kwargs.get("device")
            data = args[0] if of_data and args else None
            if old and type(data) in (list, tuple) and any(isinstance(v, Tensor) for v in data):
                args, kwargs = numbers(args, kwargs)    # under a mode 1.13 takes no list of tensors
            if device is None:
                tag = state.standing()
                if isinstance(data, Tensor):
                    tag = tag_of(data)
            else:
                tag = state.place(device)
                if tag is FOREIGN:
                    return func(*args, **kwargs)
            if tag is None and "generator" not in kwargs and "pin_memory" not in kwargs and "device" not in kwargs:
                return func(*args, **kwargs)
            kwargs = dict(kwargs)
            kwargs.pop("device", None)
            pinned = kwargs.pop("pin_memory", False)
            generator(tag, kwargs.get("generator"))
            if tag is not None:
                state.use(tag)
                state.check()
                apart = name in ("as_tensor", "asarray") and tag_of(data) != tag
                try:
                    result = func(*args, **kwargs)
                except Exception as error:
                    result = state.failed(func, args, kwargs, tag, error)
                if apart:
                    result = result.clone()
                setattr(result, TAG, tag)
                return result
            result = func(*args, **kwargs)
            if isinstance(data, Tensor) and tag_of(data) is not None and result is data:
                result = data.detach().clone()
            setattr(result, TAG, None)
            if pinned:
                result._reduce_pinned = True
            return result
        return make

    old = state.version < (2, 0)

    def numbers(args, kwargs):
        given = next(v for v in args[0] if isinstance(v, Tensor))
        values = [v.tolist() if isinstance(v, Tensor) else v for v in args[0]]
        return (values,) + tuple(args[1:]), dict({"dtype": given.dtype}, **kwargs)

    def generator(tag, given):
        if given is None:
            return
        have = "cpu" if getattr(given, TAG, None) is None else "cuda"
        need = "cpu" if tag is None else "cuda"
        if have != need:
            raise RuntimeError("Expected a '%s' device type for generator but found '%s'" % (need, have))

    for name in FACTORIES:
        on(torch, (name,), factory(name))
    plain = factory("fftfreq")
    on(torch.fft, ("fftfreq", "rfftfreq"), plain)

    def like(func, args, kwargs):
        tag = tag_of(args[0] if args else kwargs.get("input"))
        if kwargs.get("device") is not None:
            tag = state.place(kwargs["device"])
            if tag is FOREIGN:
                return func(*args, **kwargs)
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
        if tag is not None:
            state.launch(func)
        result = func(*args, **kwargs)
        setattr(result, TAG, tag)
        return result

    on(torch, LIKE, like)
    on(Tensor, NEW, like)

    def legacy_new(func, args, kwargs):
        result = func(*args, **{k: v for k, v in kwargs.items() if k != "device"})
        setattr(result, TAG, tag_of(args[0]))
        return result

    on(Tensor, ("new",), legacy_new)

    # ---- to the host

    def numpy(func, args, kwargs):
        tensor = args[0]
        tag = tag_of(tensor)
        if tag is None:
            return func(*args, **kwargs)
        if kwargs.get("force"):
            state.check()
            return tensor.detach().numpy().copy()
        raise TypeError("can't convert cuda:%d device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
                        "to host memory first." % tag)

    on(Tensor, ("numpy", "__array__"), numpy)

    def cpu_only(func, args, kwargs):
        if tag_of(args[0]) is not None:
            raise TypeError("%s is only implemented on CPU tensors" % func.__name__)
        return func(*args, **kwargs)

    on(Tensor, ("apply_", "map_", "map2_"), cpu_only)

    def show(func, args, kwargs):
        tag = tag_of(args[0])
        if tag is None:
            return func(*args, **kwargs)
        state.check()
        state.local.printing = "device='cuda:%d'" % tag
        try:
            return func(*args, **kwargs)
        finally:
            state.local.printing = None

    def show_format(func, args, kwargs):
        tensor = args[0]
        if tag_of(tensor) is not None and tensor.dim():
            return object.__format__(show(Tensor.__repr__, (tensor,), {}), args[1] if len(args) > 1 else "") \
                if not (len(args) > 1 and args[1]) else func(*args, **kwargs)
        if tag_of(tensor) is not None:
            state.check()
        return func(*args, **kwargs)

    on(Tensor, ("__repr__",), show)
    on(Tensor, ("__format__",), show_format)

    # ---- data, grad, storage

    def set_data(func, args, kwargs):
        result = func(*args, **kwargs)
        setattr(args[0], TAG, tag_of(args[1]))
        return result

    def get_grad(func, args, kwargs):
        result = func(*args, **kwargs)
        if result is not None:
            tag = tag_of(args[0])
            if tag is not None:
                setattr(result, TAG, tag)
        return result

    def set_grad(func, args, kwargs):
        tensor, value = args[0], args[1]
        if value is not None and tag_of(value) != tag_of(tensor):
            names = [str(state.device(tag_of(t))).split(":")[0] for t in (value, tensor)]
            raise RuntimeError("attempting to assign a gradient with device type '%s' to a tensor with device type "
                               "'%s'. Please ensure that the gradient and the tensor are on the same device"
                               % tuple(names))
        return func(*args, **kwargs)

    handlers[Tensor.data.__set__] = set_data
    getter("grad", get_grad)
    getter("_grad", get_grad)
    handlers[Tensor.grad.__set__] = set_grad

    def storage(func, args, kwargs):
        result = func(*args, **kwargs)
        tag = tag_of(args[0])
        if tag is not None:
            setattr(raw(result), TAG, tag)
        return result

    def raw(store):
        """The untyped storage inside a typed one."""
        for name in ("_untyped_storage", "_storage"):
            inner = store.__dict__.get(name) if hasattr(store, "__dict__") else None
            if inner is not None:
                return inner
        return store

    def set_(func, args, kwargs):
        result = func(*args, **kwargs)
        source = args[1] if len(args) > 1 else kwargs.get("source")
        if source is not None:
            setattr(args[0], TAG, tag_of(source) if isinstance(source, Tensor) else tag_of(raw(source)))
        return result

    on(Tensor, ("storage", "untyped_storage", "_typed_storage", "_storage"), storage)
    on(Tensor, ("set_",), set_)
    state.raw_storage = raw

    def reduce_ex(func, args, kwargs):
        tensor = args[0]
        tag = tag_of(tensor)
        if tag is not None:
            state.check()
        tensor.__dict__.pop(TAG, None)
        if tag is None:
            return func(*args, **kwargs)
        try:
            result = func(*args, **kwargs)
        finally:
            setattr(tensor, TAG, tag)
        stamp(result[1], tag, 0)
        return result

    def stamp(values, tag, depth):
        for value in values:
            if isinstance(value, Tensor):
                setattr(value, TAG, tag)
            elif type(value).__name__.endswith("Storage"):
                setattr(raw(value), TAG, tag)
            elif isinstance(value, tuple) and depth < 3:
                stamp(value, tag, depth + 1)

    on(Tensor, ("__reduce_ex__",), reduce_ex)

    def copy_(func, args, kwargs):
        tag = tag_of(args[0])
        source = args[1] if len(args) > 1 else kwargs.get("src", kwargs.get("other"))
        if tag is not None and tag_of(source) is not None:
            state.launch(func)
        elif tag is not None or tag_of(source) is not None:
            state.check()
        return func(*args, **kwargs)

    on(Tensor, ("copy_",), copy_)

    def register_hook(func, args, kwargs):
        tensor, hook = args[0], args[1] if len(args) > 1 else kwargs["hook"]
        tag = tag_of(tensor)
        if tag is None:
            return func(*args, **kwargs)

        def tagged(grad):
            if tag_of(grad) is None and isinstance(grad, Tensor):
                setattr(grad, TAG, tag)
            return hook(grad)
        return func(tensor, tagged)

    on(Tensor, ("register_hook", "register_post_accumulate_grad_hook"), register_hook)

    # ---- GradScaler's two operators, which older CPU builds lack

    def unscale(func, args, kwargs):
        grads, found, inverse = args
        state.launch(func)
        for grad in grads:
            if not bool(torch.isfinite(grad).all()):
                found.fill_(1.0)
            grad.mul_(inverse.to(grad.dtype))

    def update_scale(func, args, kwargs):
        scale, growth, found, up, down, interval = args
        state.launch(func)
        if float(found):
            scale.mul_(down)
            growth.zero_()
        elif int(growth) + 1 == interval:
            scale.mul_(up)
            growth.zero_()
        else:
            growth.add_(1)
        return scale

    on(torch, ("_amp_foreach_non_finite_check_and_unscale_",), unscale)
    on(torch, ("_amp_update_scale_",), update_scale)
