"""The emulated CUDA device: CPU tensors that claim to be CUDA tensors, and fail as those do.

Invariant: with no tensor on cuda and no cuda device named, a call is the plain call.  A tensor on cuda is a
plain CPU tensor with a tag; what touches one gives tagged results, values bit for bit those of the CPU.
This file must not know any single operator: moves and factories are in emulated_moves, errors in emulated_rules.
"""

import os

from . import emulated_asserts, emulated_backward, emulated_cuda, emulated_elsewhere, emulated_findings
from . import emulated_launch, emulated_moves, emulated_patches, emulated_rules, emulated_state, emulated_views
from . import witness as witness_module
from .emulated_state import TAG, NotEmulated

_HALF = "not implemented for 'Half'"


def install(spec, catalog, report):
    """Puts the emulated device in place, in the process that will run the program; answers its state, or None.

    `spec` may hold "cuda_devices" (how many exist, default 1).  `catalog` may be None.  Without torch: None.
    """
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return None
    del catalog     # the kernel tables of emulated_asserts say more than the catalogue does
    count = emulated_state.visible_devices(os.environ, (spec or {}).get("cuda_devices"))
    state = emulated_state.State(torch, report, count)
    setattr(torch.Tensor, TAG, None)
    witness_module.emulating = True
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() != 1:    # to set it costs 10 ms before 2.0
        torch.set_num_threads(1)    # trials run side by side; threads that wait for a core cost ten times the work
    recording = bool((spec or {}).get("trace"))
    state.mode = _mode(state, TorchFunctionMode, witness_module.Recorder(torch, report, True), recording)
    emulated_cuda.install(state)
    emulated_patches.install(state)
    emulated_elsewhere.install(state)
    state.mode.__enter__()
    witness_module.every_thread(state.mode)
    return state


def _mode(state, TorchFunctionMode, recorder, recording):
    torch = state.torch
    Tensor = torch.Tensor
    Parameter = torch.nn.Parameter
    handlers = {}
    plain = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device, slice, type(Ellipsis),
                       torch.Size, torch.memory_format, torch.layout))
    local = state.local
    launches = emulated_launch.Launches(state)
    used = state.used.add
    state.recorder = recorder

    def look(value):
        """Tag of a tensor in a value: the first on cuda, else None."""
        kind = type(value)
        if kind is Tensor or kind is Parameter or isinstance(value, Tensor):
            return getattr(value, TAG, None)
        if kind is list or kind is tuple or isinstance(value, (list, tuple)):
            for item in value:
                tag = look(item)
                if tag is not None:
                    return tag
        elif kind is dict:
            return look(list(value.values()))
        return None

    def mark(result, tag):
        """Tags the tensors of a result."""
        kind = type(result)
        if kind is Tensor or isinstance(result, Tensor):
            setattr(result, TAG, tag)
        elif kind is tuple or kind is list or isinstance(result, (tuple, list)):
            for item in result:
                if type(item) not in plain:
                    mark(item, tag)
        elif isinstance(result, dict):
            for item in result.values():
                mark(item, tag)
        return result

    def scan(values, found):
        """Collects (tensor, tag) of the values, lists opened."""
        for value in values:
            kind = type(value)
            if kind is Tensor or kind is Parameter:
                found.append(value)
            elif kind in plain:
                continue
            elif kind is list or kind is tuple:
                if value and type(value[0]) is not int:
                    scan(value, found)
            elif isinstance(value, Tensor):
                found.append(value)
            elif isinstance(value, (list, tuple)):
                scan(value, found)

    def generic(func, args, kwargs, mixing=True, quiet=False):
        found = []
        scan(args, found)
        if kwargs:
            scan(kwargs.values(), found)
        tag = None
        mixed = False
        for tensor in found:
            other = tensor._reduce_device
            if other is not None:
                if tag is None:
                    tag = other
                elif tag != other:
                    mixed = True
        if tag is None:
            return func(*args, **kwargs)
        if state.dead is not None and not quiet and not launches.goes_on(func):
            raise launches.error(func)
        if mixing and local.backward is None:
            for tensor in found:
                if tensor._reduce_device != tag and (mixed or tensor._reduce_device is None) and tensor.dim():
                    emulated_views.refuse(state, func, args, kwargs, found, tag)
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            result = failed(func, args, kwargs, tag, error)
        used(func)
        kind = type(result)
        if kind is Tensor:
            result._reduce_device = tag
        elif kind not in plain:
            mark(result, tag)
        return result

    def failed(func, args, kwargs, tag, error):
        """A call on cuda tensors raised on the CPU: answers a result, or raises what CUDA raises."""
        if isinstance(error, NotEmulated) or (state.dead is not None and not state.held):
            raise error
        text = str(error)
        if _HALF in text:
            return emulated_views.in_float(torch, func, args, kwargs)
        if any(words in text for words in witness_module.BEYOND):
            raise state.not_emulated("%s (%s)" % (witness_module.public_name(torch, func), text.split("\n")[0])) \
                from error
        name = witness_module.public_name(torch, func)
        call = emulated_findings.Call(torch, state.version, func, name, args, kwargs, error)
        finding = emulated_rules.diagnose(call)
        if finding is None:
            raise error
        if finding.host is not None:
            raise finding.host from None
        line = None
        if finding.kernel is not None:
            line = emulated_asserts.line(finding.kernel, state.version, finding.block, finding.thread,
                                         finding.message, finding.condition)
        if line is None:
            if finding.silent is not None:
                return finding.silent()
            raise error
        return assertion(line, func, args, kwargs, call, finding)

    def assertion(line, func, args, kwargs, call, finding):
        """The kernel asserts: raises, or answers what a launch that nobody waits for leaves behind."""
        first = not state.held
        if first:
            aten = emulated_findings.aten(torch, call, finding) if recording else None
            emulated_asserts.write([line])
            error = state.kill()
            # noted before the call goes on, which may write to an argument
            recorder.hold(func, args, kwargs, call.text, finding.offence, aten)
        if not state.blocking and not launches.raises_at_once(call):
            try:
                result = emulated_launch.left_behind(call)
            except Exception:
                pass        # what cannot be continued is raised at once
            else:
                state.held = True
                return result
        if not first:
            raise state.sticky() from None
        recorder.surfaced(error)
        raise error from None

    lookup, unknown, view = handlers.get, object(), emulated_views.VIEW

    class Device(TorchFunctionMode):
        """The one mode that is both the emulation and the witness."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            handler = lookup(func, unknown)
            if handler is None:
                return func(*args, **kwargs) if kwargs else func(*args)
            if handler is unknown:
                if state.dead is not None:
                    return generic(func, args, kwargs or {})
            elif handler is not view:
                return handler(func, args, kwargs or {})
            # the common case in one loop: tensors of one device and plain values
            tag = unknown
            for value in args:
                kind = type(value)
                if kind is Tensor or kind is Parameter:
                    if tag is unknown:
                        tag = value._reduce_device
                    elif tag != value._reduce_device:
                        return generic(func, args, kwargs or {}, True, handler is view)
                elif kind not in plain:
                    return generic(func, args, kwargs or {}, True, handler is view)
            if kwargs:
                for value in kwargs.values():
                    if type(value) not in plain:
                        return generic(func, args, kwargs, True, handler is view)
            else:
                kwargs = {}
            if tag is None or tag is unknown:
                return func(*args, **kwargs)
            try:
                result = func(*args, **kwargs)
            except Exception as error:
                result = failed(func, args, kwargs, tag, error)
            used(func)
            if type(result) is Tensor:
                result._reduce_device = tag
                return result
            return result if type(result) in plain else mark(result, tag)

    def checked(rule):
        """Handler of a call that CUDA checks and the CPU does not."""
        def handle(func, args, kwargs):
            tag = look(args) if state.dead is None else None
            if tag is not None:
                name = witness_module.public_name(torch, func)
                call = emulated_findings.Call(torch, state.version, func, name, args, kwargs, None)
                finding = rule(call)
                if finding is not None:
                    line = emulated_asserts.line(finding.kernel, state.version, finding.block, finding.thread)
                    return state.mark(assertion(line, func, args, kwargs, call, finding), tag)
            return generic(func, args, kwargs)
        return handle

    def watched(question):
        """Handler of a call whose backward pass CUDA checks and the CPU does not."""
        def handle(func, args, kwargs):
            result = generic(func, args, kwargs)
            ask = question(args, kwargs)
            if ask is not None and result.requires_grad and getattr(result, TAG) is not None:
                result.register_hook(lambda gradient: answer(ask))
            return result

        def answer(ask):
            # A hook runs with the mode on, through which a dead device refuses what the note asks.
            on = torch._C._len_torch_function_stack()
            mode = torch.overrides._pop_mode() if on else None
            try:
                finding = ask() if state.dead is None else None
                if finding is not None:
                    func, roots = Tensor.backward, state.local.roots
                    call = emulated_findings.Call(torch, state.version, func, "torch.Tensor.backward", roots, {}, None)
                    line = emulated_asserts.line(finding.kernel, state.version, finding.block, finding.thread)
                    assertion(line, func, roots, {}, call, finding)
            finally:
                if on:
                    torch.overrides._push_mode(mode)
        return handle

    def handle_by(names, make):
        for name, rule in names.items():
            for owner in (torch.nn.functional, torch, Tensor):
                func = getattr(owner, name, None)
                if func is not None:
                    handlers[func] = make(rule)

    handle_by(emulated_rules.UNCHECKED, checked)
    handle_by(emulated_backward.WATCHED, watched)
    state.look, state.mark, state.generic = look, mark, generic
    state.failed = failed
    emulated_views.build(state, generic, handlers)
    emulated_moves.build(state, look, mark, handlers)
    state.handlers = handlers
    return Device()
