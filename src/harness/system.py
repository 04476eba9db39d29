"""The machine and the build of torch, as bug reports name them.

Invariant: it reads a few system files, starts no process and no CUDA, and never raises into the program.
It must not ask a device anything: after an assertion the device is dead.
"""

import glob
import os
import re
import sys


def facts(torch, on_gpu):
    """What `torch.utils.collect_env` says beside versions; what cannot be read is absent."""
    system = os.uname()
    libc = _guarded(lambda: os.confstr("CS_GNU_LIBC_VERSION"))
    named = "-with-" + libc.replace(" ", "") if libc else ""
    found = {"os": _guarded(_distribution), "libc": libc and libc.replace(" ", "-"), "machine": system.machine,
             "platform": "%s-%s-%s%s" % (system.sysname, system.release, system.machine, named),
             "bits": sys.maxsize.bit_length() + 1, "cpu": _guarded(_processor), "cores": os.cpu_count(),
             "debug": _guarded(lambda: bool(torch.version.debug)), "hip": _guarded(lambda: torch.version.hip),
             "xnnpack": _guarded(lambda: bool(torch.backends.xnnpack.enabled))}
    if on_gpu:
        found.update(gpus=_guarded(_gpus), driver=_guarded(_driver),
                     cudnn=_guarded(lambda: torch.backends.cudnn.version()),
                     module_loading=os.environ.get("CUDA_MODULE_LOADING"))
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def _guarded(look):
    try:
        return look()
    except Exception:
        return None


def _read(path):
    with open(path, errors="replace") as handle:
        return handle.read(1 << 16)


def _distribution():
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release"), re.M)
    return found and found.group(1)


def _processor():
    found = re.search(r"^(?:model name|Model)\s*: *(.+)$", _read("/proc/cpuinfo"), re.M)
    return found and found.group(1).strip()


def _gpus():
    texts = [_read(path) for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information"))]
    models = [re.search(r"^Model:\s*(.+)$", text, re.M) for text in texts]
    return [model.group(1).strip() for model in models if model]


def _driver():
    found = re.search(r"^NVRM version:.*?\b(\d+\.\d+(?:\.\d+)?)\b", _read("/proc/driver/nvidia/version"), re.M)
    return found and found.group(1)
