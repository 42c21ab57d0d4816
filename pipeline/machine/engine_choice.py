"""Choose this process's engine and the kernels it computes with, before the engine is loaded."""

import os
from collections.abc import Iterable

from pipeline.machine.environment import installed_engine
from pipeline.machine.hardware import cpu_features, this_machine
from pipeline.study.engines import ENGINES
from pipeline.study.policies import POLICIES

USUAL, OWN = "usual", "own"
SWITCH = "TF_ENABLE_ONEDNN_OPTS"  # TensorFlow reads this variable only while it is loaded


def choose_engine(policies: Iterable[str] = (), backend: str | None = None) -> None:
    """Choose Keras's backend in this process, and kernels that suit `policies`.

    Call this function before the first import of `pipeline.engine`.

    Args:
        policies: the policies that this process will compute under.
        backend: a backend of Keras; by default, that of the installed engine.
    """
    os.environ["KERAS_BACKEND"] = backend or ENGINES[installed_engine()].backend
    os.environ.pop(SWITCH, None)  # a value from the user's shell would change the speeds
    if kernels_for(policies) == OWN:
        os.environ[SWITCH] = "0"


def can_fork() -> bool:
    """Return whether a process that has imported the engine can be forked.

    Such a process can't be forked if the engine is TensorFlow for GPUs and the machine has a GPU, because the import
    touches the GPU.
    """
    engine = ENGINES[installed_engine()]
    return engine.backend == "jax" or engine.hardware == "cpu" or this_machine().kind == "cpu"


def take_memory_as_needed() -> None:
    """Let engines that are loaded from now on take GPU memory only as they need it.

    By default, an engine takes most of the GPU memory at once. The user's own settings of this kind stay.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def kernels_for(policies: Iterable[str]) -> str:
    """Return `OWN` for TensorFlow's own kernels if oneDNN's would be a hundred times slower, else `USUAL`.

    On a CPU with AVX512-FP16, TensorFlow hands float16 to oneDNN. oneDNN has no fast float16 kernel for some operations
    and falls back to slow reference code. `USUAL` stands for TensorFlow's default kernels.

    Args:
        policies: the policies that this process will compute under. If any of them multiplies in float16, the choice
            follows that policy.
    """
    computes_float16 = any(POLICIES[policy].products == "float16" for policy in policies)
    return OWN if computes_float16 and "avx512_fp16" in (cpu_features() or ()) else USUAL
