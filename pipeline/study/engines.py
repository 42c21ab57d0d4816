"""List the engines: locked sets of packages for training, each with its Keras backend and its hardware."""

from typing import Literal, NamedTuple


class Engine(NamedTuple):
    """Describe the packages of `requirements/<name>.txt`: their Keras backend and the hardware they are for."""

    backend: Literal["tensorflow", "jax"]
    hardware: Literal["cpu", "nvidia_gpu", "tpu"]


ENGINES = {
    "cpu": Engine("tensorflow", "cpu"),
    "cuda": Engine("tensorflow", "nvidia_gpu"),
    "cuda-jax": Engine("jax", "nvidia_gpu"),
    "tpu": Engine("jax", "tpu"),
}
