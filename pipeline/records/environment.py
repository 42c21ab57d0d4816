"""The machine and the software of a run, as its record describes them."""

from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from pipeline.files.untrusted import Sha256, fault


class Accelerator(TypedDict):
    """A GPU or a TPU core, as the engine and its driver tell of it."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[misc]

    kind: str
    name: str
    compute_capability: str
    memory_bytes: NotRequired[int | None]
    uuid: NotRequired[str | None]  # tells which one it was; runs on another of the same name are comparable


class StableEnvironment(TypedDict):
    """The part of `pipeline.machine.environment.describe` that stays the same from run to run: all but the load."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[misc]

    python: str
    operating_system: str
    machine: str
    cpu: str | None
    cpu_features: list[str] | None
    num_cpus: int | None
    memory_bytes: int
    accelerators: list[Accelerator]
    driver: str | None
    packages: dict[str, str]
    kernels: str
    runtime: str
    lock_sha256: Sha256 | None
    image: dict[str, str | bool | None] | None
    git_commit: str | None


class Environment(StableEnvironment):
    load_average: float


_ADAPTER = TypeAdapter(Environment)  # once: to build it takes longer than to read a record


def as_environment(values: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(_ADAPTER.validate_python(values))
    except ValidationError as error:
        raise ValueError(f"environment: {fault(error)}") from None
