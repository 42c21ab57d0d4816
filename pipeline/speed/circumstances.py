"""Where and how the speed of a benchmark's variants was measured: `results/speed/<benchmark>.json`."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from pipeline.files.untrusted import Untrusted
from pipeline.records.environment import as_environment
from pipeline.records.measured import Seconds

EndReason = Literal[
    "the baseline does not train", "the intervals are as narrow as asked for", "the budget is spent"
]  # why a measurement has no more blocks


class Circumstances(Untrusted):
    """Hold what the blocks of a benchmark, in the file beside it, do not say. Speeds follow from the blocks alone.

    `environment` is that of the baseline's process in the last launch, as run records have theirs.
    """

    schema_version: Literal[1] = 1
    environment: Annotated[dict[str, Any], AfterValidator(as_environment)]
    side_by_side: bool
    budget_seconds: Seconds
    target_half_width: Annotated[float, Field(gt=0, lt=1)]
    spent_seconds: Seconds
    ended_because: EndReason
