"""Define the file that the numerics stage writes, `results/numerics.json`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.files.untrusted import Sha256
from pipeline.records.run_record import Count, Environment, Part, Share


class Gradients(Part):
    """Hold the number of activation gradients by binary exponent, and their fate in float16, scaled and unscaled.

    Shares are relative to the gradients that are not zero in float32.
    """

    exponents: list[Annotated[int, Field(ge=-2000, le=2000)]]
    counts: list[Count]
    loss_scale: float
    flushed_share: Share
    flushed_share_scaled: Share
    overflow_share_scaled: Share


class TrialResult(Part):
    """Hold a trial of an optimizer under a policy: how many seeds trained, its accuracies, and those in float32."""

    name: str
    policy: str
    optimizer: str
    options: dict[str, float]
    loss_scale: float | Literal["dynamic"] | None
    accuracies: list[float]
    float32_accuracies: list[float]
    num_trained: Count
    num_trials: Annotated[int, Field(ge=1)]


class Numerics(Part):
    """Hold the content of the file: `gradients` by benchmark, and `samples` by experiment, one value per try.

    `identity` is everything that determines the content. `environment` describes the machine that produced it.
    """

    schema_version: Literal[4]
    identity: dict[str, Any] | None = None  # missing from early files
    environment: Environment | None = None  # missing from early files
    sha256: Sha256 | None = None  # of the rest of the file, without the identity
    facts: dict[str, bool | int | float | str]
    samples: dict[str, list[float]]
    gradients: dict[str, Gradients]
    trials: list[TrialResult]
