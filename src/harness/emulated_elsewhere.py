"""Where programs leave eager code on one device: compilers, data parallel, distributed runs, other libraries.

Invariant: what can be done on the CPU without another value is done so, and said; all else raises NotEmulated.
This file must not handle errors.
"""

import sys

from .emulated_state import TAG

_EXCHANGES = ("broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather")


def install(state):
    """Applies every patch; each part stands alone."""
    for part in (_compilers, _recomputing, _parallel, _exchanges, _libraries):
        part(state)


def _compilers(state):
    torch = state.torch

    def eager(kind, what):
        state.report.note(kind, text="%s left the code as it is: the emulated device compiles nothing" % what)

    def compile(model=None, **kwargs):
        if model is None:
            return lambda model: compile(model)
        eager("compile_is_eager", "torch.compile")
        return model

    if hasattr(torch, "compile"):
        torch.compile = compile
        torch.nn.Module.compile = lambda self, *args, **kwargs: eager("compile_is_eager", "torch.compile")

    def script(obj=None, *args, **kwargs):
        eager("script_is_eager", "torch.jit")
        return obj

    def trace(func, *args, **kwargs):
        eager("script_is_eager", "torch.jit")
        return func

    torch.jit.script, torch.jit.trace = script, trace


def _recomputing(state):
    """A checkpoint compares shape, type and device of what is saved twice, the second time outside of any call.

    Inside of one the device of a tensor reads as the memory's; the devices are those of the same program both times.
    """
    import torch.utils.checkpoint as checkpoint
    checks = getattr(checkpoint, "_allowed_determinism_checks_to_fns", None)
    if checks is None:
        return          # before 2.1 nothing is compared

    def without_device(extract):
        return lambda tensor: {key: value for key, value in extract(tensor).items() if key != "device"}

    name = checkpoint._DEFAULT_DETERMINISM_MODE
    checks[name] = without_device(checks[name])


def _parallel(state):
    torch = state.torch

    def to_device(value, device):
        if isinstance(value, torch.Tensor):
            return value.to(device)
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(to_device(v, device) for v in value)
        if isinstance(value, dict):
            return {k: to_device(v, device) for k, v in value.items()}
        return value

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        device = torch.device("cuda", self.device_ids[0])
        return self.module(*to_device(inputs, device), **to_device(kwargs, device))

    torch.nn.DataParallel.forward = forward
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not hasattr(distributed, "init_process_group"):
        return
    real = distributed.init_process_group

    def init_process_group(backend=None, *args, **kwargs):
        kwargs.pop("device_id", None)
        if backend is None or "nccl" in str(backend):
            backend = "gloo"
        return real(backend, *args, **kwargs)

    distributed.init_process_group = init_process_group
    distributed.is_nccl_available = lambda: True


def _exchanges(state):
    """What data parallel does between devices, where a program asks for it by name."""
    def refused(name):
        def exchange(*args, **kwargs):
            raise state.not_emulated("torch.nn.parallel.comm." + name)
        return exchange

    comm = sys.modules.get("torch.nn.parallel.comm")
    for name in _EXCHANGES:
        if hasattr(comm, name):
            setattr(comm, name, refused(name))


def _libraries(state):
    """Other libraries would take the memory for the CPU's."""
    torch = state.torch
    Tensor = torch.Tensor

    def foreign(name):
        def use(tensor, *args, **kwargs):
            if getattr(tensor, TAG, None) is not None:
                raise state.not_emulated("device memory handed to another library by %s" % name)
            return genuine[name](tensor, *args, **kwargs)
        return use

    import torch.utils.dlpack as dlpack
    array = Tensor.__dict__["__cuda_array_interface__"]
    genuine = {"to_dlpack": dlpack.to_dlpack, "__dlpack__": Tensor.__dlpack__,
               "__cuda_array_interface__": array.__get__}
    dlpack.to_dlpack = torch.to_dlpack = foreign("to_dlpack")
    Tensor.__dlpack__ = foreign("__dlpack__")
    Tensor.__cuda_array_interface__ = property(foreign("__cuda_array_interface__"))
