"""Switches that a bisection turns: seed, workers, determinism, TF32, cuDNN.

Invariant: each is turned once, right after torch is there; what the program sets itself later stays as it sets it.
It must not run a torch operator.
"""

from . import imports, pins


def install(spec, told, report):
    """`told`: {switch: value}."""
    if "seed" in told or "num_workers" in told:
        spec.update({name: told[name] for name in ("seed", "num_workers") if name in told})
        pins.install(spec)
    imports.when_loaded("torch", lambda torch: _turn(torch, told))


def _turn(torch, told):
    if not hasattr(torch, "backends"):
        return      # a module of the project that is only called so
    if "deterministic" in told:
        torch.use_deterministic_algorithms(told["deterministic"], **({"warn_only": True} if told["deterministic"] else {}))
    if "tf32" in told:
        torch.backends.cuda.matmul.allow_tf32 = told["tf32"]
        torch.backends.cudnn.allow_tf32 = told["tf32"]
    if "cudnn_benchmark" in told:
        torch.backends.cudnn.benchmark = told["cudnn_benchmark"]
    if "cudnn" in told:
        torch.backends.cudnn.enabled = told["cudnn"]
