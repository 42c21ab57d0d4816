"""The class of hardware that a study ran on, read off its environments."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple


class Hardware(NamedTuple):
    kind: Literal["cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    name: str
    compute_capability: float | None


def hardware_of(environments: Sequence[dict[str, Any]]) -> Hardware:
    """The hardware of environments as `pipeline.environment.describe` gives them; they share one class."""
    environment = environments[0]
    for accelerator in environment["accelerators"]:
        capability = accelerator["compute_capability"]
        return Hardware("nvidia_gpu", accelerator["name"], float(capability) if capability else None)
    return Hardware("cpu", environment["cpu"] or environment["machine"], None)
