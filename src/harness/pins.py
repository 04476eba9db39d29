"""Pins inside the interpreter: seeds, unseeded generators, DataLoader workers.

Invariant: a pin that the trial did not ask for changes nothing; and a forked child without a seed draws a new one,
as a fresh process does.  It must not run a torch operator.
"""

import functools
import hashlib
import inspect
import random
import sys

from . import imports, report


def install(spec):
    """Puts the trial's pins in place, now or as soon as the module concerned is imported."""
    seed = spec["seed"]
    if seed is None:
        if spec["mode"] == "fork":      # a fresh process has its own entropy already
            random.seed()
            _if_loaded("numpy.random", lambda module: module.seed())
            _if_loaded("torch", lambda module: module.default_generator.seed())
    else:
        random.seed(seed)
        _name_unseeded(seed)
        imports.when_loaded("numpy.random", lambda module: _seed_numpy(module, seed))
    if spec["num_workers"] is not None:
        imports.when_loaded("torch.utils.data.dataloader",
                            lambda module: _pin_workers(module.DataLoader, spec["num_workers"]))


def torch_loaded(spec, torch):
    """The pins that torch itself needs; `program` calls this when torch is there."""
    if spec["seed"] is not None:
        torch.manual_seed(spec["seed"])


def _if_loaded(name, act):
    if name in sys.modules:
        act(sys.modules[name])


def _draws(seed):
    """Deterministic stand-ins for the entropy of the operating system, by order of call."""
    count = 0

    def draw(bits):
        nonlocal count
        count += 1
        value, block = 0, 0
        while block * 512 < bits:
            text = "%d %d %d" % (seed, count, block)
            value = value << 512 | int.from_bytes(hashlib.blake2b(text.encode()).digest(), "big")
            block += 1
        return value & ((1 << bits) - 1)

    return draw


def _seed_numpy(module, seed):
    """The global generator, and every generator that is made without a seed: these take their entropy in one place."""
    module.seed(seed % (1 << 32))
    source = sys.modules.get("numpy.random.bit_generator")
    if source is None or not hasattr(source, "randbits"):
        return
    draw = _draws(seed)

    def randbits(bits):
        _note_unseeded(sys._getframe(1))
        return draw(bits)

    source.randbits = randbits


def _name_unseeded(seed):
    """`random.seed()` and `random.Random()` written in the project draw from the pinned seed too."""
    draw = _draws(seed ^ 0x5EED)
    genuine = random.Random.seed
    shared = random.seed

    def directly_from_project(frame):
        while frame is not None and frame.f_code.co_filename == random.__file__:
            frame = frame.f_back
        return frame is not None and report.relative(frame.f_code.co_filename) is not None

    @functools.wraps(genuine)
    def seed_instance(self, a=None, version=2):
        if a is None and directly_from_project(sys._getframe(1)):
            _note_unseeded(sys._getframe(1))
            a = draw(256)
        return genuine(self, a, version)

    @functools.wraps(shared)
    def seed_shared(a=None, version=2):
        if a is None and directly_from_project(sys._getframe(1)):
            _note_unseeded(sys._getframe(1))
            a = draw(256)
        return shared(a, version)

    random.Random.seed = seed_instance
    random.seed = seed_shared


def _note_unseeded(frame):
    frames = report.project_frames(frame)
    if frames:
        report.note("unseeded_generator", file=frames[-1]["file"], line=frames[-1]["line"])


_NEED_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout")


def _pin_workers(loader, workers):
    """DataLoader with that many workers; without workers also without the arguments that it then refuses."""
    genuine = loader.__init__
    try:
        signature = inspect.signature(genuine)
    except (TypeError, ValueError):
        return

    @functools.wraps(genuine)
    def __init__(*args, **kwargs):
        try:
            bound = signature.bind_partial(*args, **kwargs)
        except TypeError:
            return genuine(*args, **kwargs)     # raises what the program would have seen
        if bound.arguments.get("num_workers", 0) != workers:
            for name in ("num_workers",) + (_NEED_WORKERS if workers == 0 else ()):
                bound.arguments.pop(name, None)
            given = dict(bound.arguments)
            rest = given.pop("kwargs", {})
            owner = given.pop(next(iter(signature.parameters)))
            return genuine(owner, num_workers=workers, **given, **rest)
        return genuine(*args, **kwargs)

    loader.__init__ = __init__
