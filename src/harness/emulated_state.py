"""The state of the emulated CUDA device: how many there are, which is current, whether it is dead.

Invariant: an int is the index of a cuda device and None is the CPU, everywhere in the emulation; the tag of
a tensor is its attribute `_reduce_device`.  Once `dead` is set it is never unset: a CUDA context that saw an
assert stays unusable.  `held` says that the host has not been told yet.  This file must not touch tensor values and must not know any operator.
"""

import os
import threading

TAG = "_reduce_device"
FOREIGN = "foreign"     # a device type that is not ours (meta, mps, xla): left to torch


class NotEmulated(RuntimeError):
    """Something that the emulated CUDA device cannot do; the trial is then undecided, never a verdict."""


def version_of(torch):
    """(major, minor) of the torch in hand."""
    parts = torch.__version__.split("+")[0].split(".")
    return int(parts[0]), int("".join(c for c in parts[1] if c.isdigit()) or 0)


def visible_devices(environ, setting):
    """How many devices the program may see: CUDA_VISIBLE_DEVICES, else the setting, else one."""
    total = int(setting or 1)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return total
    names = [n.strip() for n in visible.split(",")]
    count = 0
    for name in names:          # CUDA stops at the first that does not exist
        if not name or name == "-1":
            break
        if name.isdigit() and int(name) >= max(total, len(names)):
            break
        count += 1
    return count


class _Local(threading.local):
    """What differs from thread to thread."""

    def __init__(self):
        self.current = 0        # torch.cuda.current_device()
        self.defaults = []      # devices of entered `with torch.device(...)` blocks
        self.backward = None    # device of the backward pass that runs in this thread
        self.roots = ()         # tensors that it starts from
        self.printing = None    # device to name in the text of a tensor
        self.depth = 0          # handlers of the mode on the stack of this thread


class State:
    """One emulated machine with its cuda devices."""

    def __init__(self, torch, report, count):
        self.torch = torch
        self.report = report
        self.version = version_of(torch)
        self.count = count
        self.blocking = blocking_launches(os.environ)
        self.default = None         # torch.set_default_device and set_default_tensor_type
        self.dead = None            # text of the sticky error, once the device saw an assert
        self.held = False           # the device is dead, and no call has said so yet
        self.used = set()           # torch functions that have launched a kernel: theirs are loaded
        self.recorder = None        # the witness
        self.initialized = False
        self.bad_fork = False
        self.mode = None
        self.local = _Local()
        self.devices = [torch.device("cuda", i) for i in range(max(count, 1) + 16)]
        self.cpu = torch.device("cpu")
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        if self.initialized:
            self.bad_fork = True
            self.dead = self.text("initialization error", "cudaErrorInitializationError")

    # ---- devices

    def place(self, device):
        """Index of a cuda device, None for the CPU, FOREIGN for another type.  Checks that it exists."""
        torch = self.torch
        if device is None:
            return self.standing()
        if isinstance(device, torch.device):
            kind, index = device.type, device.index
        elif isinstance(device, bool):
            raise TypeError("device must be a string, a torch.device or an int, not bool")
        elif isinstance(device, int):
            kind, index = "cuda", device
        else:
            device = torch.device(device)
            kind, index = device.type, device.index
        if kind == "cpu":
            return None
        if kind != "cuda":
            return FOREIGN
        return self.use(self.local.current if index is None else index)

    def standing(self):
        """The default device of this thread: an index or None."""
        if self.local.defaults:
            return self.local.defaults[-1]
        default = self.default
        return self.local.current if default == "current" else default

    def use(self, index):
        """Starts CUDA on a device, as the first use does; answers its index."""
        if self.bad_fork:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                               "multiprocessing, you must use the 'spawn' start method")
        if not 0 <= index < self.count:
            if self.count == 0:
                raise RuntimeError("No CUDA GPUs are available")
            raise self.error("invalid device ordinal", "cudaErrorInvalidDevice",
                             "GPU device may be out of range, do you have enough GPUs?")
        if not self.initialized:
            self.initialized = True
            self.blocking = blocking_launches(os.environ)   # CUDA reads it when it starts
        return index

    def device(self, index):
        """torch.device of a tag."""
        return self.cpu if index is None else self.devices[index]

    # ---- errors

    def error_class(self):
        """torch.AcceleratorError where there is one (since 2.8), else RuntimeError."""
        return getattr(self.torch, "AcceleratorError", RuntimeError)

    def error(self, words, code, extra=None):
        """The exception that torch raises for a CUDA error, with the text of this version."""
        return self.error_class()(self.text(words, code, extra))

    def text(self, words, code, extra=None):
        """Text of a CUDA error: first line, where to search, hint about asynchrony, hint about DSA."""
        version = self.version
        lines = ["CUDA error: " + words]
        if extra and version >= (2, 9):
            lines.append(extra)
        if version >= (2, 9):
            lines.append("Search for `%s' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
                         "group__CUDART__TYPES.html for more information." % code)
        if not self.blocking and not (extra and version >= (2, 9)):
            space = " " if version >= (2, 0) else ""
            dot = "" if version >= (2, 6) else "."
            lines.append("CUDA kernel errors might be asynchronously reported at some other API call,"
                         + space + "so the stacktrace below might be incorrect.")
            lines.append("For debugging consider passing CUDA_LAUNCH_BLOCKING=1" + dot)
        if version >= (2, 0):
            lines.append("Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n")
        return "\n".join(lines)

    def kill(self):
        """The device saw an assert: answers the exception to raise now and at every later use."""
        self.dead = self.text("device-side assert triggered", "cudaErrorAssert")
        return self.error_class()(self.dead)

    def sticky(self):
        """The exception of a call on a dead device."""
        error = self.error_class()(self.dead)
        self.surface(error)
        return error

    def surface(self, error):
        """The host learns of the failure, for the first time or again."""
        if self.held:
            self.held = False
            self.recorder.surfaced(error)
        else:
            self.recorder.later(error)

    def check(self):
        """A call that waits for the device: raises the sticky error when it is dead."""
        if self.dead is not None:
            raise self.sticky()

    def launch(self, what):
        """A call that waits for nothing: while a failure is held it goes on if it has run before."""
        if self.dead is None:
            self.used.add(what)
        elif not (self.held and what in self.used):
            raise self.sticky()

    def not_emulated(self, what):
        """Notes that the trial cannot be decided here; answers the error to raise."""
        self.report.tell("not_emulated", what)
        return NotEmulated("%s is not emulated by the emulated CUDA device" % what)


def blocking_launches(environ):
    """Whether CUDA_LAUNCH_BLOCKING asks for blocking launches."""
    return environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
