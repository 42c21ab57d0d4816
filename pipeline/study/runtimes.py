"""Name the sets of locked packages that train, each with its engine and the hardware it is for."""

from typing import Literal, NamedTuple


class Runtime(NamedTuple):
    """Say what the packages of `requirements/<name>.txt` are."""

    engine: Literal["tensorflow", "jax"]
    hardware: Literal["cpu", "nvidia_gpu", "tpu"]


RUNTIMES = {
    "cpu": Runtime("tensorflow", "cpu"),
    "cuda": Runtime("tensorflow", "nvidia_gpu"),
    "cuda-jax": Runtime("jax", "nvidia_gpu"),
    "tpu": Runtime("jax", "tpu"),
}
