"""Choose this process's engine and the kernels it computes with, before the engine is loaded."""

import os
from collections.abc import Iterable

from pipeline.machine.environment import installed_engine
from pipeline.machine.hardware import cpu_features, this_machine
from pipeline.study.engines import ENGINES
from pipeline.study.policies import POLICIES

USUAL, OWN = "usual", "own"
SWITCH = "TF_ENABLE_ONEDNN_OPTS"  # TensorFlow reads it once, when it is loaded


def choose_engine(policies: Iterable[str] = (), backend: str | None = None) -> None:
    """Choose Keras's backend in this process, and kernels that suit `policies`.

    Call this function before the first import of `pipeline.engine`.

    Args:
        policies: the policies that this process will compute under.
        backend: a backend of Keras; by default, that of the installed engine.
    """
    os.environ["KERAS_BACKEND"] = backend or ENGINES[installed_engine()].backend
    os.environ.pop(SWITCH, None)  # a value left in a user's shell would change every speed
    if kernels_for(policies) == OWN:
        os.environ[SWITCH] = "0"


def can_fork() -> bool:
    """Return whether a process that has imported the engine can be forked: not if TensorFlow has touched a GPU."""
    engine = ENGINES[installed_engine()]
    return engine.backend == "jax" or engine.hardware == "cpu" or this_machine().kind == "cpu"


def take_memory_as_needed() -> None:
    """Make engines that are loaded from now on take GPU memory only as they need it.

    By default, one process takes nearly all GPU memory.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def kernels_for(policies: Iterable[str]) -> str:
    """Name the kernels to compute with: TensorFlow's own if oneDNN's would be a hundred times slower.

    On a CPU with AVX512-FP16, TensorFlow hands float16 to oneDNN. oneDNN has no fast kernel for some operations and
    falls back to reference code. Everywhere else, and for every other policy, TensorFlow's default stays.

    Args:
        policies: the policies that this process will compute under.
    """
    computes_float16 = any(POLICIES[policy].products == "float16" for policy in policies)
    return OWN if computes_float16 and "avx512_fp16" in (cpu_features() or ()) else USUAL
