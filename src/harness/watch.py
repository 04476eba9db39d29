"""The watch: looks at the arguments of a call that can assert, where they lie, just before the launch.

Invariant: nothing can be read after a device-side assert, so all that is said of the arguments is read before; no
value is changed, no random number drawn, no device started.  Calls that are not watched cost one look-up.
It must not judge: a call that is sure to assert is only noted, and forgotten where it does not.
"""

import sys

from . import emulated_findings, emulated_rules, emulated_state, report

# rules that need the error of the CPU, or hold only of a call that is known to fail
_NEED_AN_ERROR = ("max_unpool1d", "max_unpool2d", "max_unpool3d", "segment_reduce", "backward", "grad")


class Watch:
    """What is watched: `{"operator": name or None for all, "site": [file, first line, last line] or None for all}`."""

    def __init__(self, torch, wanted, recorder):
        self.torch = torch
        self.recorder = recorder
        self.version = emulated_state.version_of(torch)
        self.site = wanted.get("site")
        operator = wanted.get("operator")
        self.only = rule_of(operator) if operator else None
        self.rules = {}     # torch function -> (its name, its rule) or None
        self.everywhere = not operator

    def before(self, func, args, kwargs):
        """What a call that is about to be made will trip over: (offence, described arguments), or None."""
        try:
            known = self.rules[func]
        except KeyError:
            known = self.rules[func] = self._known(func)
        except TypeError:
            return None
        if known is None or not self._here():
            return None
        try:
            return self._look(func, known, args, kwargs or {})
        except Exception:
            return None         # the call itself will say what is wrong with its arguments

    def _known(self, func):
        name = self.recorder.name(func)
        rule = rule_of(name)
        if rule is None or not (self.everywhere or rule is self.only):
            return None
        return name, rule

    def _here(self):
        if self.site is None:
            return True
        frame = sys._getframe(2)
        while frame is not None:
            filename = frame.f_code.co_filename
            if not report.is_harness(filename):
                file = report.relative(filename)
                if file is not None:
                    return file == self.site[0] and self.site[1] <= frame.f_lineno <= self.site[2]
            frame = frame.f_back
        return False

    def _look(self, func, known, args, kwargs):
        torch = self.torch
        on_device = any(value.is_cuda for value in _tensors(torch, list(args) + list(kwargs.values())))
        if not on_device and not self.recorder.values:
            return None
        if on_device and torch.cuda.is_current_stream_capturing():
            return None         # a graph that is being captured must not wait for the device
        name, rule = known
        with torch.no_grad():
            call = emulated_findings.Call(torch, self.version, func, name, args, kwargs, None)
            if not _may_assert(call, rule):
                return None
            finding = rule(call)
            if finding is None or finding.host is not None or finding.offence is None:
                return None
            return finding.offence, self.recorder.describe(name, args, kwargs, True)


def rule_of(name):
    """The rule of an operator that can be asked before the call, or None."""
    leaf = name.rsplit(".", 1)[-1]
    if leaf.endswith("_") and not leaf.endswith("__"):
        leaf = leaf[:-1] if leaf[:-1] in emulated_rules.RULES else leaf
    return None if leaf in _NEED_AN_ERROR else emulated_rules.RULES.get(leaf)


def _may_assert(call, rule):
    """Some rules hold of calls that are known to fail: what they take for granted is asked here."""
    if rule is emulated_rules.assert_async:
        return not bool(call.arg(0, "input").any())
    return True


def _tensors(torch, values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for inner in _tensors(torch, value):
                yield inner


def dispatched(call):
    """Makes a call; an exception that it raises has the name of the aten operator in its attribute `_reduce_aten`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Dispatch(TorchDispatchMode):
        """Passes each operator on, and puts its name on the first exception."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            try:
                return func(*args, **(kwargs or {}))
            except Exception as error:
                if getattr(error, "_reduce_aten", None) is None:
                    error._reduce_aten = str(func)
                raise

    with Dispatch():
        return call()
