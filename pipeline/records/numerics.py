"""Define the file that the numerics stage writes, `results/numerics.json`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.files.untrusted import Sha256
from pipeline.records.run_record import Count, Environment, Part, Share


class Gradients(Part):
    """Hold the number of activation gradients by binary exponent, and the shares of gradients that float16 loses.

    `counts` has one number for each of `exponents`. Float16 rounds `flushed_share` of the gradients to zero. Of
    the gradients scaled by `loss_scale`, a share of `flushed_share_scaled` becomes zero in float16, and a share of
    `overflow_share_scaled` becomes infinite.
    Shares, in [0, 1], leave out gradients that are zero in float32.
    """

    exponents: list[Annotated[int, Field(ge=-2000, le=2000)]]
    counts: list[Count]
    loss_scale: float
    flushed_share: Share
    flushed_share_scaled: Share
    overflow_share_scaled: Share


class TrialResult(Part):
    """Hold a trial, which trains a small dense network with one optimizer under one policy, once for each seed.

    `accuracies` are validation accuracies in [0, 1], one per seed. `float32_accuracies` are those of the same trial in
    float32. With `num_trained` of the `num_trials` seeds, the accuracy is at most `SHORTFALL` (in
    `pipeline.numerics.facts`) below the accuracy in float32.
    """

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
    """Hold the content of `results/numerics.json`.

    `facts` has one value for each name. `samples` has a list of values for each experiment, one value per try.
    `gradients` has one entry for each benchmark. `identity` holds everything that determines the content. `environment`
    describes the machine that produced the content.
    """

    schema_version: Literal[4]
    identity: dict[str, Any] | None = None  # missing from early files
    environment: Environment | None = None  # missing from early files
    sha256: Sha256 | None = None  # of all fields but `schema_version`, `identity` and this one
    facts: dict[str, bool | int | float | str]
    samples: dict[str, list[float]]
    gradients: dict[str, Gradients]
    trials: list[TrialResult]
