"""The fork server: one interpreter that has imported what the program needs, and forks a child for each trial.

Line JSON on standard input and output, which are moved away before anything else is imported.
Invariant: it never runs a torch operator, never initialises CUDA, and never runs project code;
a child never returns to it.  It judges nothing.
"""

import sys

STARTUP_MODULES = frozenset(sys.modules)    # what any fresh interpreter has loaded before its program

import os
import types


def _bootstrap():
    """Makes the harness files importable as `_reduce.*`, a name that no project has, whatever their folder's name."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.realpath(here):
        del sys.path[0]
    package = types.ModuleType("_reduce")
    package.__path__ = [here]
    sys.modules["_reduce"] = package


_bootstrap()

if __name__ == "__main__":
    sys.dont_write_bytecode = False     # of the harness itself; `serving` forbids it again
    from _reduce import serving

    _trial = serving.serve(STARTUP_MODULES)
    if _trial is not None:
        from _reduce import program

        program.run(_trial)
