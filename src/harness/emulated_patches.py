"""What a mode does not see: parameters, storages, files of tensors, autograd's callbacks, default devices,
generators, optimizers that choose their loop by device.

Invariant: each patch leaves CPU use as it was.  Optimizers keep the loop that they use on the CPU, so that
numbers are those of the CPU.  This file must not handle errors.
"""

import sys

from .emulated_state import FOREIGN, TAG


def install(state):
    """Applies every patch; each part stands alone."""
    for part in (_parameters, _transforms, _storages, _files, _autograd, _default_device, _generators, _loops,
                 _printing, _overrides, _getitem, _mode_stack):
        part(state)


def _parameters(state):
    torch = state.torch
    Tensor = torch.Tensor
    make, as_subclass = Tensor._make_subclass, Tensor.as_subclass

    def make_subclass(*args, **kwargs):
        result = make(*args, **kwargs)
        tag = getattr(args[1] if len(args) > 1 else kwargs.get("data"), TAG, None)
        if tag is not None:
            setattr(result, TAG, tag)
        return result

    def subclass(self, *args, **kwargs):
        result = as_subclass(self, *args, **kwargs)
        tag = getattr(self, TAG)
        if tag is not None:
            setattr(result, TAG, tag)
        return result

    Tensor._make_subclass = staticmethod(make_subclass)
    Tensor.as_subclass = subclass
    Parameter = torch.nn.Parameter
    reduce_ex = Parameter.__reduce_ex__

    def reduce_untagged(self, protocol):
        """A file holds no tag: the place of the storage says it."""
        tag = self.__dict__.pop(TAG, None)
        try:
            result = reduce_ex(self, protocol)
        finally:
            if tag is not None:
                setattr(self, TAG, tag)
        return result if tag is None else (result[0], state.mark(result[1], tag)) + tuple(result[2:])

    Parameter.__reduce_ex__ = reduce_untagged


def _transforms(state):
    """torch.func wraps tensors in others, which are on the same device."""
    def carrying(real):
        def wrapped(tensor, *args, **kwargs):
            result = real(tensor, *args, **kwargs)
            tag = getattr(tensor, TAG, None)
            if tag is not None and result is not tensor:
                setattr(result, TAG, tag)
            return result
        return wrapped

    for name in ("torch._functorch.vmap", "torch._functorch.eager_transforms"):
        module = sys.modules.get(name)
        for part in ("_add_batch_dim", "_remove_batch_dim", "_wrap_for_grad", "_unwrap_for_grad"):
            if module is not None and hasattr(module, part):
                setattr(module, part, carrying(getattr(module, part)))


def _storages(state):
    torch = state.torch
    cls = getattr(torch, "UntypedStorage", None) or torch._UntypedStorage
    real = cls.device

    def device(self):
        tag = getattr(self, TAG, None)
        return real.__get__(self) if tag is None else state.devices[tag]

    clone_memory = cls.clone

    def clone(self):
        tag = getattr(self, TAG)
        if tag is not None:
            state.check()
        setattr(self, TAG, None)        # the copy asks for the device of the memory
        try:
            result = clone_memory(self)
        finally:
            setattr(self, TAG, tag)
        setattr(result, TAG, tag)
        return result

    def copied(self, tag):
        if getattr(self, TAG) == tag:
            return self
        result = clone(self)
        setattr(result, TAG, tag)
        return result

    def cuda(self, device=None, *args, **kwargs):
        return copied(self, state.use(state.local.current) if device is None else state.place(device))

    def cpu(self):
        return copied(self, None)

    def shared(self, *args, **kwargs):
        raise state.not_emulated("CUDA memory shared between processes")

    setattr(cls, TAG, None)
    cls._share_cuda_ = shared
    cls.device = property(device)
    cls.is_cuda = property(lambda self: getattr(self, TAG, None) is not None)
    cls.cuda, cls.cpu, cls.clone = cuda, cpu, clone


def _files(state):
    """torch.save names cuda:N as the place of a tagged storage; torch.load tags what comes from there."""
    from torch import serialization

    def tagger(storage):
        tag = getattr(state.raw_storage(storage), TAG, None)
        return None if tag is None else "cuda:%d" % tag

    def restore(storage, location):
        if not location.startswith("cuda"):
            return None
        if state.count == 0:
            raise RuntimeError("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
                               "False. If you are running on a CPU-only machine, please use torch.load with "
                               "map_location=torch.device('cpu') to map your storages to the CPU.")
        name, _, index = location.partition(":")
        index = int(index) if index else state.local.current
        if index >= state.count:
            raise RuntimeError("Attempting to deserialize object on CUDA device %d but torch.cuda.device_count() is "
                               "%d. Please use torch.load with map_location to map your storages to an existing "
                               "device." % (index, state.count))
        state.check()
        setattr(state.raw_storage(storage), TAG, state.use(index))
        return storage

    serialization.register_package(1, tagger, restore)


def _autograd(state):
    torch = state.torch
    function = torch.autograd.Function
    local = state.local
    backward_function = torch.autograd.function.BackwardCFunction
    own = function.__dict__.get("apply")

    def apply(cls, *args, **kwargs):
        bound = own.__get__(None, cls) if own is not None else super(function, cls).apply
        result = bound(*args, **kwargs)
        tag = state.look(args)
        return result if tag is None else state.mark(result, tag)

    function.apply = classmethod(apply)
    called = backward_function.apply

    def tagged(values):
        tag = local.backward
        if tag is not None:
            for value in values:
                if isinstance(value, torch.Tensor) and getattr(value, TAG) is None:
                    setattr(value, TAG, tag)
        return values

    def backward_apply(self, *args):
        return called(self, *tagged(args))

    backward_function.apply = backward_apply
    saved = torch._C._FunctionBase.saved_tensors
    backward_function.saved_tensors = property(lambda self: tagged(saved.__get__(self)))

    real = torch.autograd.Variable._execution_engine

    class Engine:
        """The autograd engine; its callbacks see the emulated device again."""

        def __getattr__(self, name):
            return getattr(real, name)

        def run_backward(self, tensors, *args, **kwargs):
            before = local.backward, local.roots
            tag = state.look(list(tensors))
            if tag is not None:
                state.launch("backward")
                local.backward, local.roots = tag, tuple(tensors)
            stack = torch._C._len_torch_function_stack() if hasattr(torch._C, "_len_torch_function_stack") else 0
            try:
                if tag is None or stack:
                    result = real.run_backward(tensors, *args, **kwargs)
                else:
                    with state.mode:
                        result = real.run_backward(tensors, *args, **kwargs)
            except Exception as error:
                if tag is None or (state.dead is not None and not state.held):
                    raise
                return state.failed(torch.Tensor.backward, tuple(tensors), {}, tag, error)
            finally:
                local.backward, local.roots = before
            return result if tag is None or result is None else state.mark(result, tag)

    torch.autograd.Variable._execution_engine = Engine()
    Module = torch.nn.Module

    def hooks(name):
        register = getattr(Module, name, None)
        if register is None:
            return

        def wrapped(self, hook, *args, **kwargs):
            def with_tags(module, *grads):
                for grad in grads:
                    if isinstance(grad, (tuple, list)):
                        tagged([g for g in grad if g is not None])
                return hook(module, *grads)
            return register(self, with_tags, *args, **kwargs)
        setattr(Module, name, wrapped)

    for name in ("register_full_backward_hook", "register_backward_hook", "register_full_backward_pre_hook"):
        hooks(name)


def _default_device(state):
    torch = state.torch
    local = state.local

    def set_default_tensor_type(kind):
        name = kind if isinstance(kind, str) else getattr(kind, "reduce_name", None)
        if name is None:
            name = kind.__module__ + "." + kind.__name__
        state.default = "current" if name.startswith("torch.cuda.") else None
        if state.default is not None:
            _legacy_constructor(state)
        real_type(name.replace("torch.cuda.", "torch.", 1))

    real_type = torch.set_default_tensor_type
    torch.set_default_tensor_type = set_default_tensor_type
    if not hasattr(torch, "set_default_device"):
        return
    real_default = torch.set_default_device

    def set_default_device(device):
        place = None if device is None else state.place(device)
        if place is FOREIGN:
            return real_default(device)
        state.default = place
        return None

    torch.set_default_device = set_default_device
    if hasattr(torch, "get_default_device"):
        real_get = torch.get_default_device

        def get_default_device():
            standing = state.standing()
            return real_get() if standing is None else state.devices[standing]
        torch.get_default_device = get_default_device
    from torch.utils._device import DeviceContext as context
    enter, leave = context.__enter__, context.__exit__

    def __enter__(self):
        place = state.place(self.device)
        self._reduce_place = place
        if place is FOREIGN:
            return enter(self)
        local.defaults.append(place)
        return None

    def __exit__(self, *exc):
        if self._reduce_place is FOREIGN:
            return leave(self, *exc)
        local.defaults.pop()
        return None

    context.__enter__, context.__exit__ = __enter__, __exit__


def _legacy_constructor(state):
    """torch.Tensor(...) follows the default type; no mode sees it."""
    Tensor = state.torch.Tensor
    if getattr(Tensor.__new__, "_reduce", False):
        return
    make = Tensor.__new__

    def __new__(cls, *args, **kwargs):
        result = make(cls, *args, **kwargs)
        if cls is Tensor and state.default == "current" and isinstance(result, Tensor):
            state.check()
            setattr(result, TAG, state.use(state.local.current))
        return result
    __new__._reduce = True
    Tensor.__new__ = __new__


def _generators(state):
    torch = state.torch
    base = torch._C.Generator

    class Meta(type(base)):
        """torch.default_generator is a torch.Generator too."""

        def __instancecheck__(cls, value):
            return isinstance(value, base)

    class Generator(base, metaclass=Meta):
        """A CPU generator that may claim to be on cuda."""

        def __new__(cls, device="cpu"):
            place = state.place(device)
            if place is FOREIGN:
                return base(device)
            self = base.__new__(cls)
            setattr(self, TAG, place)
            return self

        def __init__(self, device="cpu"):
            pass

        device = property(lambda self: state.device(getattr(self, TAG)))

    Generator.__module__ = "torch"
    torch.Generator = Generator


def _loops(state):
    """`foreach` and `fused` are chosen by device: a tensor on cuda would get loops with other roundings."""
    import torch.optim
    import torch.nn.utils.clip_grad as clip
    # not by a walk through sys.modules: touching thousands of objects after a fork copies their pages
    for kind in list(vars(state.torch.optim).values()):
        module = sys.modules.get(kind.__module__) if isinstance(kind, type) else None
        if hasattr(module, "_default_to_fused_or_foreach"):
            module._default_to_fused_or_foreach = lambda *args, **kwargs: (False, False)
    foreach = sys.modules.get("torch.utils._foreach_utils")
    for module in (clip, foreach):
        if module is not None and hasattr(module, "_has_foreach_support"):
            module._has_foreach_support = lambda *args, **kwargs: False


def _printing(state):
    """Names the device behind the numbers of a printed tensor."""
    import torch._tensor_str as module
    real = module._add_suffixes

    def add_suffixes(text, suffixes, indent, force_newline):
        device = state.local.printing
        if device is not None:
            suffixes = [device] + list(suffixes)
        return real(text, suffixes, indent, force_newline)

    module._add_suffixes = add_suffixes


def _overrides(state):
    """Torch's own fast paths stand aside where a mode is on; on the CPU none is, so they must not."""
    import torch.overrides
    Tensor = state.torch.Tensor
    disabled = state.torch._C._disabled_torch_function_impl

    def has_torch_function(values):
        for value in values:
            own = getattr(type(value), "__torch_function__", None)
            if own is not None and own is not disabled and type(value) is not Tensor and \
                    getattr(own, "__func__", own) is not Tensor.__torch_function__.__func__:
                return True
        return False

    torch.overrides.has_torch_function = has_torch_function


def _getitem(state):
    """Before 2.0 indexing does not always go through the mode."""
    if state.version >= (2, 0):
        return
    torch = state.torch
    get, put = torch.Tensor.__getitem__, torch.Tensor.__setitem__
    handler = state.handlers[get]
    length, overrides = torch._C._len_torch_function_stack, torch.overrides
    simple = (int, slice, type(Ellipsis), type(None))

    def through(real, args):
        if not length():
            return real(*args)
        mode = overrides._pop_mode()
        try:
            return handler(real, args, {})
        finally:
            overrides._push_mode(mode)

    def __getitem__(self, key):
        if self._reduce_device is None and type(key) in simple:
            return get(self, key)
        return through(get, (self, key))

    def __setitem__(self, key, value):
        return through(put, (self, key, value))

    torch.Tensor.__getitem__, torch.Tensor.__setitem__ = __getitem__, __setitem__


def _mode_stack(state):
    """Before 2.0 a mode is called through Python that costs more than most operators; this does the same, faster."""
    if state.version >= (2, 0):
        return
    core = state.torch._C
    pop, push = core._pop_torch_function_stack, core._push_on_torch_function_stack
    length, enable = core._len_torch_function_stack, core._set_torch_function_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        mode = pop()
        if length() > 0:
            enable(self)        # whoever called this has switched it off, and restores it
        try:
            return mode.__torch_function__(func, types, args, kwargs)
        finally:
            push(mode)

    state.torch.overrides._TorchFunctionStackMode.__torch_function__ = __torch_function__
