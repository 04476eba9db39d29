"""Interpreters that the program starts by `spawn` or `forkserver`: they belong to the trial as forked ones do.

Invariant: a spawned interpreter runs the code that Python gives it, after the trial's imports, pins and device have
been put in place; an interpreter that the program starts in another way is left alone.
This file must not start anything itself.
"""

import json
import os
import sys

from . import imports, pins, report

_HERE = os.path.dirname(os.path.abspath(__file__))
_BEGIN = ("import sys, types; _p = types.ModuleType('_reduce'); _p.__path__ = [%r]; sys.modules['_reduce'] = _p; "
          "from _reduce import spawned; spawned.begin(%r); del _p; ")
_HANDED = ("project", "root", "workdir", "changed", "view", "scratch", "device", "catalog", "seed", "num_workers",
           "witness", "watch", "trace", "cuda_devices")


def install(spec):
    """Makes the interpreters that multiprocessing starts from here on begin with `begin`."""
    workdir = os.getcwd()
    imports.when_loaded("multiprocessing.util", lambda util: _wrap(util, spec, workdir))


def _wrap(util, spec, workdir):
    real = util.spawnv_passfds
    if getattr(real, "_reduce", False):
        return

    def spawnv_passfds(path, args, passfds):
        args = list(args)
        for at, word in enumerate(args[:-1]):
            text = args[at + 1]
            if word == "-c" and isinstance(text, str) and ("multiprocessing.spawn" in text
                                                           or "multiprocessing.forkserver" in text):
                args[at + 1] = _BEGIN % (_HERE, _hand_over(spec, workdir)) + text
                break
        return real(path, args, passfds)
    spawnv_passfds._reduce = True
    util.spawnv_passfds = spawnv_passfds


def _hand_over(spec, workdir):
    """Writes what a spawned interpreter needs to know, once a trial; answers the file's name."""
    path = os.path.join(spec["scratch"], "spawned.json")
    if not os.path.exists(path):
        handed = {name: spec[name] for name in _HANDED if name in spec}
        handed["changed"] = sorted(handed["changed"])
        handed.update(mode="exec", owner=report.owner(), workdir=workdir)
        part = "%s.%d" % (path, os.getpid())
        with open(part, "w") as handle:
            json.dump(handed, handle)
        os.replace(part, path)
    return path


def begin(path):
    """In the spawned interpreter, before anything of the program's."""
    with open(path) as handle:
        spec = json.load(handle)
    spec["startup_modules"] = list(sys.modules)
    report.configure(spec["root"], spec["workdir"])
    report.belong(spec["owner"], spec["scratch"])
    imports.install(spec)
    pins.install(spec)
    from . import program
    program.watch_for_torch(spec)
