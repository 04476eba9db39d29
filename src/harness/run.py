"""Entry of the exec mode: a fresh interpreter that runs one trial whose walls stand already.

Invariant: after this the process is as `python script.py` would have made it; `program` does the work for both modes.
"""

import sys

STARTUP_MODULES = frozenset(sys.modules)

import os
import types

if __name__ == "__main__":
    _here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.realpath(_here):
        del sys.path[0]
    sys.modules["_reduce"] = types.ModuleType("_reduce")
    sys.modules["_reduce"].__path__ = [_here]

    import json

    with open(sys.argv[1], "rb") as _handle:
        _trial = json.load(_handle)
    _trial["startup_modules"] = STARTUP_MODULES
    from _reduce import program

    program.run(_trial)
