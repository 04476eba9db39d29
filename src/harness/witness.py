"""The witness: notes the first torch call that raises a CUDA error, with the project's frames and the arguments.

Invariant: it notes once, changes no value, starts no CUDA and never raises into the program; values are read
only where the tensors lie in host memory (`values`), that is on the emulated device and the CPU.
It must not judge: what the failure means is decided elsewhere.
"""

import os
import re
import sys
import threading

from . import arguments
from .arguments import holder
from .emulated_state import NotEmulated
from .watch import Watch, dispatched

_CUDA_ERROR = re.compile(r"CUDA (driver )?error|CUBLAS_STATUS|CUDNN_STATUS|cuDNN error|Triton Error \[CUDA\]"
                         r"|device-side assert|illegal memory access|CUDA out of memory")

# texts by which torch and others say that they wanted a real device
BEYOND = ("no kernel image is available", "Torch not compiled with CUDA", "Found no NVIDIA driver",
          "from the 'CUDA' backend", "active drivers", "CUDA driver version is insufficient",
          "module 'torch._C' has no attribute '_cuda",
          "module 'torch._C' has no attribute '_nccl", "CUDAGuardImpl initialized with non-CUDA", "CUDA_HOME environment variable is not set")

emulating = False   # whether this process has the emulated device
batch = []      # index lists of the last batches that a DataLoader fetched in this process, latest last
seen = None     # the first exception that was noted: `finish` compares it with the last one
_HARNESS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_HELD = object()    # stands for it while no call has raised it yet


def install(spec, report):
    """Installs the witness for a trial on a real device or on the CPU (`spec["device"]`); answers the mode."""
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return None
    remember_batches(torch)
    device = (spec or {}).get("device", "cuda")
    if device == "emulated":
        return None         # the emulated device's own mode is the witness
    recorder = Recorder(torch, report, device == "cpu")
    on_cpu = device == "cpu"
    watch = Watch(torch, spec["watch"], recorder) if (spec or {}).get("watch") else None
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
    recording = bool((spec or {}).get("trace"))     # the name of the aten operator is worth a mode of its own then

    class Witness(TorchFunctionMode):
        """Passes each call on, and notes the first that raises a CUDA error."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            # What a compiler reads while it traces must stay as it is: it would guard on the watch, which remembers.
            ahead = None if watch is None or compiling() else watch.before(func, args, kwargs)
            try:
                if ahead is None or not recording:
                    return func(*args, **(kwargs or {}))
                return dispatched(lambda: func(*args, **(kwargs or {})))
            except Exception as error:
                if _CUDA_ERROR.search(str(error)):
                    recorder.record(error, func, args, kwargs, None, None, ahead)
                elif on_cpu:
                    recorder.on_cpu(error, func, args, kwargs, ahead)
                raise

    mode = Witness()
    mode.__enter__()
    every_thread(mode)
    _in_backward(torch, mode)
    if not hasattr(torch, "compile"):
        _old_indexing(torch, mode)
    return mode


def every_thread(mode):
    """A mode belongs to one thread: each new one gets it too, also where a class has its own `run`."""
    start = threading.Thread._bootstrap_inner
    if getattr(start, "_reduce", False):
        return

    def with_mode(self):
        with mode:
            start(self)
    with_mode._reduce = True
    threading.Thread._bootstrap_inner = with_mode


def _in_backward(torch, mode):
    """A mode is off while it handles a call, `backward` too: the Python functions that backward runs get it again."""
    real = torch.autograd.Variable._execution_engine

    class Engine:
        """The autograd engine with the mode."""

        def __getattr__(self, name):
            return getattr(real, name)

        def run_backward(self, *args, **kwargs):
            if torch._C._len_torch_function_stack():
                return real.run_backward(*args, **kwargs)
            with mode:
                return real.run_backward(*args, **kwargs)

    torch.autograd.Variable._execution_engine = Engine()


def _old_indexing(torch, mode):
    """Before 2.0 indexing does not always go through the mode."""
    from torch import overrides

    def seen_by(real):
        def wrapped(self, *args):
            if not torch._C._len_torch_function_stack():
                return real(self, *args)
            current = overrides._pop_mode()
            try:
                return mode.__torch_function__(real, (), (self,) + args)
            finally:
                overrides._push_mode(current)
        return wrapped

    for name in ("__getitem__", "__setitem__"):
        setattr(torch.Tensor, name, seen_by(getattr(torch.Tensor, name)))


def finish(report, error):
    """At the end of the program: was the first failure swallowed, and was it something not emulated?"""
    failure = report.facts.get("failure")
    if failure and seen is not None:
        chain, at = [], error
        while at is not None and at not in chain:
            chain.append(at)
            at = at.__cause__ or at.__context__
        failure["swallowed"] = seen is not _HELD and not any(e is seen for e in chain)
    if error is None or report.facts.get("not_emulated"):
        return
    try:
        text = str(error)
    except Exception:
        return
    if isinstance(error, NotEmulated) or (emulating and any(words in text for words in BEYOND)):
        report.tell("not_emulated", text.split("\n")[0][:200])


def remember_batches(torch):
    """Keeps the index list of the last fetched batch, to name the sample behind a position."""
    try:
        from torch.utils.data._utils import fetch
    except ImportError:
        return
    real = fetch._MapDatasetFetcher.fetch
    if getattr(real, "_reduce", False):
        return

    def wrapped(self, indices):
        if isinstance(indices, (list, tuple)):
            batch[:] = [list(indices)]
        return real(self, indices)
    wrapped._reduce = True
    fetch._MapDatasetFetcher.fetch = wrapped
    _remember_workers(torch)


def _remember_workers(torch):
    """With worker processes the lists are kept by number as they are handed out, and looked up as batches arrive."""
    import torch.utils.data.dataloader as loader
    kind = loader._MultiProcessingDataLoaderIter
    hand_out, take = kind._next_index, kind._next_data

    def next_index(self):
        indices = hand_out(self)
        if isinstance(indices, (list, tuple)):
            self.__dict__.setdefault("_reduce_sent", {})[self._send_idx] = list(indices)
        return indices

    def next_data(self):
        data = take(self)
        batch[:] = [self.__dict__.get("_reduce_sent", {}).pop(self._rcvd_idx - 1, [])]
        return data

    kind._next_index, kind._next_data = next_index, next_data


def public_name(torch, func):
    """Name of a torch function as a user writes it: torch.nn.functional.x, torch.Tensor.x, torch.x."""
    name = getattr(func, "__name__", None) or type(func).__name__
    owner = getattr(func, "__objclass__", None)
    if name in ("__get__", "__set__"):
        return "torch.Tensor." + getattr(getattr(func, "__self__", None), "__name__", name)
    if owner is not None:
        return "torch.Tensor." + name
    home = getattr(func, "__module__", None) or ""
    where = getattr(func, "__qualname__", name)
    if "." in where and where.split(".")[0] in ("Tensor", "TensorBase", "_TensorBase"):
        return "torch.Tensor." + name
    if home.startswith("torch.") and home not in ("torch._C", "torch._C._nn", "torch._VF", "torch.functional"):
        return home + "." + name
    if home == "torch._C._nn" or not hasattr(torch, name):
        if hasattr(torch.nn.functional, name):
            return "torch.nn.functional." + name
    return "torch." + name


def package_of(frame):
    """The installed package whose code made a call: that of the innermost frame outside torch and the harness.

    None where that frame is the project's own, or the standard library's.
    """
    while frame is not None:
        filename = frame.f_code.co_filename
        name = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if name != "torch" and not filename.startswith(_HARNESS):
            installed = "site-packages" in filename or "dist-packages" in filename
            return name if installed and name != "__main__" else None
        frame = frame.f_back
    return None


class Recorder:
    """Writes `facts["failure"]`; one a process.  `values`: the tensors lie in host memory and can be read at any time."""

    def __init__(self, torch, report, values):
        self.torch = torch
        self.report = report
        self.values = values
        if values:
            remember_batches(torch)

    def name(self, func):
        """Public name of a torch function."""
        return public_name(self.torch, func)

    def record(self, error, func, args, kwargs, cpu_text, offence, ahead=None):
        """Notes the first failure; later ones are ignored.  `ahead`: what was seen of it before the launch."""
        self._note(error, getattr(error, "_reduce_aten", None), func, args, kwargs, cpu_text, offence, ahead)

    def hold(self, func, args, kwargs, cpu_text, offence, aten):
        """Notes the first failure while no call has raised it: the launch does not block, or is still going on."""
        self._note(_HELD, aten, func, args, kwargs, cpu_text, offence, None)

    def _note(self, error, aten, func, args, kwargs, cpu_text, offence, ahead):
        global seen
        if self.report.facts.get("failure") and seen is not None:
            return
        seen = error
        try:
            failure = self._failure(func, args, kwargs or {}, cpu_text, offence, ahead)
            failure["aten"] = aten
        except Exception as trouble:    # a note that cannot be made must not change the program
            failure = {"op": public_name(self.torch, func), "aten": None, "frames": [], "args": [], "offence": None,
                       "cpu_text": repr(trouble)[:200], "swallowed": False}
        self.report.tell("failure", failure)
        if self.report.early is not None and error is not _HELD:
            self.report.early(error)

    def surfaced(self, error):
        """The exception by which the program learns of a failure that was held."""
        global seen
        if seen is _HELD:
            seen = error

    def later(self, error):
        """A later call on a dead device: the first failure had been swallowed."""
        failure = self.report.facts.get("failure")
        if failure:
            failure["swallowed"] = True

    def on_cpu(self, error, func, args, kwargs, ahead=None):
        """On the CPU a failure is an error that the GPU would report from the device."""
        from . import emulated_findings, emulated_rules, emulated_state
        version = emulated_state.version_of(self.torch)
        name = public_name(self.torch, func)
        call = emulated_findings.Call(self.torch, version, func, name, args, kwargs or {}, error)
        finding = emulated_rules.diagnose(call)
        if finding is not None and finding.host is None:
            self.record(error, func, args, kwargs, str(error), finding.offence, ahead)

    def _failure(self, func, args, kwargs, cpu_text, offence, ahead):
        name = public_name(self.torch, func)
        described = None
        if ahead is not None:
            offence, described = ahead
        if described is None:
            described = self.describe(name, args, kwargs, self.values)
        if offence is not None:
            offence["sample"] = self._sample(offence, offence.pop("rows", None))
            offence["argument"] = holder(described, offence)
        caller = sys._getframe(2)
        return {"op": name, "aten": None, "frames": self.report.project_frames(caller),
                "package": package_of(caller), "args": described, "offence": offence, "cpu_text": cpu_text, "swallowed": False}

    def _sample(self, offence, rows):
        """Index in the data set of the offending row, where the last batch has as many rows."""
        position = offence.get("position")
        if not position or not batch:
            return None
        latest = batch[-1]
        if rows != len(latest) or position[0] >= len(latest):
            return None
        index = latest[position[0]]
        return int(index) if hasattr(index, "__index__") or isinstance(index, int) else None

    def describe(self, name, args, kwargs, readable):
        """The arguments of a call as outcome.json has them; `readable`: whether values can be read now."""
        return arguments.describe(self.torch, name, args, kwargs, readable)
