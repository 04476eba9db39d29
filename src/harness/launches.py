"""Operators on the device, counted; one synchronisation behind a chosen one.

Invariant: without a chosen number nothing is synchronised; with one, exactly once, so that everything else stays as
asynchronous as it was.  It notes and raises what the device says; it must not judge.
"""

import sys

from . import imports


def install(spec, told, report):
    """`told`: sync: the number of the operator, from 1, behind which the device is waited for; None only counts."""
    facts = {"count": 0, "at": None, "raised": None}
    report.facts["launches"] = facts
    imports.when_loaded("torch", lambda torch: _count(torch, spec, told.get("sync"), facts, report))


def _count(torch, spec, chosen, facts, report):
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        report.note("harness", text="this torch cannot count operators")
        return
    on_gpu = spec["device"] == "cuda"

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if on_gpu and not _on_device(torch, (args, kwargs, result)):
                return result
            facts["count"] += 1
            if facts["count"] == chosen:
                facts["at"] = _describe(torch, func, args, kwargs, report)
                _wait(torch, facts)
            return result

    Count().__enter__()


def _wait(torch, facts):
    facts["raised"] = False
    try:
        torch.cuda.synchronize()
    except Exception:
        facts["raised"] = True
        raise


def _on_device(torch, value, depth=0):
    if isinstance(value, torch.Tensor):
        return value.is_cuda
    if isinstance(value, dict):
        value = list(value.values())
    return depth < 3 and isinstance(value, (list, tuple)) and any(_on_device(torch, part, depth + 1) for part in value)


def _describe(torch, func, args, kwargs, report):
    """The operator, where the project calls it, and the shapes that it gets."""
    shapes = []

    def collect(value, depth=0):
        if isinstance(value, torch.Tensor):
            shapes.append({"shape": list(value.shape), "dtype": str(value.dtype).replace("torch.", "")})
        elif isinstance(value, (list, tuple)) and depth < 2:
            for part in value:
                collect(part, depth + 1)

    collect(list(args) + list((kwargs or {}).values()))
    return {"op": str(func), "frames": report.project_frames(sys._getframe(2)), "args": shapes}
