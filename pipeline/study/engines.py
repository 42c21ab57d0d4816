"""Name the engines: sets of locked packages that train, each with Keras's backend and the hardware it is for."""

from typing import Literal, NamedTuple


class Engine(NamedTuple):
    """Say what the packages of `requirements/<name>.txt` are."""

    backend: Literal["tensorflow", "jax"]
    hardware: Literal["cpu", "nvidia_gpu", "tpu"]


ENGINES = {
    "cpu": Engine("tensorflow", "cpu"),
    "cuda": Engine("tensorflow", "nvidia_gpu"),
    "cuda-jax": Engine("jax", "nvidia_gpu"),
    "tpu": Engine("jax", "tpu"),
}
