"""Advice: a policy, a batch, what to watch, and the size of a study that answers the rest."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipeline.health.findings import Examination
from pipeline.speed.blocks import PlacedBlock
from pipeline.statistics.intervals import Ratio


class Row(BaseModel):
    """A variant that was timed. `speedup` and `memory_ratio` are against float32 at batch B: above 1 faster, larger."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    policy: str
    batch_size: int
    outcome: str
    images_per_second: float | None
    speedup: Ratio
    peak_memory_bytes: int | None
    peak_memory_kind: str | None
    memory_ratio: float | None
    skipped_steps: int
    largest_batch: int | None


class Advice(BaseModel):
    """`policy` and `batch_size` are what was timed speaks for; `num_seeds` and `study_seconds` are of the full study.

    `verdict` says it in sentences, `watch` what may spoil it. `half_width` is that of the intervals of speedup, as a
    share of the ratio.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[2] = 2
    benchmark: str
    device: str
    policy: str
    batch_size: int
    verdict: list[str]
    watch: list[str]
    num_seeds: int
    study_seconds: float | None
    rows: list[Row]
    health: list[Examination]
    num_turns_by_launch: list[int]
    half_width: float | None
    blocks: list[PlacedBlock]
