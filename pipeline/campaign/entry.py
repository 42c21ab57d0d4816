"""An entry of the ledger: on what a campaign was made, each of its runs, and the launches that measured speed."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveFloat

from pipeline.comparison.comparable import device
from pipeline.records.schema import RunRecord
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import RunKey, Study


class CampaignRun(BaseModel):
    """One run of a campaign. Accuracy in [0, 1]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    variant: str
    seed: int
    outcome: str
    test_accuracy: float | None


class CampaignLaunch(BaseModel):
    """The speeds of a benchmark's variants in one launch of processes.

    `epoch_seconds` is what the baseline takes for the training images of an epoch, in the median over turns, and
    `slowdowns` by how much longer each variant takes in the same turns: first the baseline itself, 1. Variants too slow
    for a block in every other turn are left out; where the baseline is, all the others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    benchmark: str
    launch: int
    epoch_seconds: PositiveFloat
    slowdowns: dict[str, PositiveFloat]


class CampaignEntry(BaseModel):
    """A campaign: what it was made on, each of its runs, of `num_planned`, and the launches that measured speed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[3] = 3
    campaign: str
    profile: str
    started_at: str
    made_on: dict[str, str]
    num_planned: int
    runs: list[CampaignRun]
    launches: list[CampaignLaunch]

    @property
    def series(self) -> str:
        """Digest what a campaign must share to be compared, to twelve hexadecimal digits."""
        text = json.dumps({"profile": self.profile} | self.made_on, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def seeds(self) -> set[int]:
        return {run.seed for run in self.runs}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return benchmark and variant of the runs, each pair once."""
        return list(dict.fromkeys((run.benchmark, run.variant) for run in self.runs))

    @property
    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(run.benchmark for run in self.runs))

    def runs_of(self, benchmark: str, variant: str) -> list[CampaignRun]:
        return [run for run in self.runs if (run.benchmark, run.variant) == (benchmark, variant)]

    def accuracies(self, benchmark: str, variant: str) -> list[float]:
        """Return test accuracies in percent, of the completed runs."""
        return [100 * run.test_accuracy for run in self.runs_of(benchmark, variant) if run.test_accuracy is not None]

    def launches_of(self, benchmark: str) -> list[CampaignLaunch]:
        return [launch for launch in self.launches if launch.benchmark == benchmark]

    def training_times(self, benchmark: str) -> list[float]:
        """Return logarithms of the baseline's epoch seconds, one a launch."""
        return [math.log(launch.epoch_seconds) for launch in self.launches_of(benchmark)]

    def timed_variants(self, benchmark: str) -> list[str]:
        """Return the variants that every launch has timed, the baseline first."""
        measured = [list(launch.slowdowns) for launch in self.launches_of(benchmark)]
        return [name for name in (measured or [[]])[0] if all(name in names for names in measured)]

    def launch_effects(self, benchmark: str, variants: Sequence[str]) -> np.ndarray:
        """Return logarithms of slowdowns, (num_launches, num_variants)."""
        return np.log([[launch.slowdowns[name] for name in variants] for launch in self.launches_of(benchmark)])


def entry(study: Study, records: Mapping[RunKey, RunRecord], speeds: Mapping[str, Speeds]) -> CampaignEntry:
    """Return the campaign's entry.

    Args:
        records: of the runs there are, at least one, which `check_comparable` has seen.
        speeds: by benchmark; where other work took more of the machine than the study allows, they don't count.
    """
    environment = next(iter(records.values())).environment
    return CampaignEntry(
        campaign=study.campaign,
        profile=study.profile,
        started_at=min(record.started_at for record in records.values()),
        made_on=_made_on(study, environment),
        num_planned=len(study.runs()),
        runs=[
            CampaignRun(**key._asdict(), outcome=record.outcome, test_accuracy=record.scores.test_accuracy)
            for key, record in records.items()
        ],
        launches=[
            CampaignLaunch(
                benchmark=benchmark,
                launch=number,
                epoch_seconds=seconds,
                slowdowns={name: math.exp(effects[found.variants.index(name)]) for name in _compared(found)},
            )
            for benchmark, found in speeds.items()
            if found.variants and (found.other_cpu_share or 0.0) <= study.comparison.max_other_cpu_share
            for number, (seconds, effects) in enumerate(zip(found.baseline_seconds, found.training, strict=True), 1)
            if all(math.isfinite(effects[found.variants.index(name)]) for name in _compared(found))
        ],
    )


def _compared(speeds: Speeds) -> list[str]:
    """Return the variants that are compared, the baseline first: what is timed seldom is timed less well."""
    return speeds.often if speeds.baseline in speeds.often else [speeds.baseline]


def _made_on(study: Study, environment: Mapping[str, Any]) -> dict[str, str]:
    image = environment.get("image") or {}
    return {
        "device": device(environment),
        "driver": environment.get("driver") or "none",
        "packages": environment.get("lock_sha256") or "unknown",
        "image": image.get("content_sha256") or "none",
        "study": study.digest_of(Study.model_fields.keys() - {"campaign", "seeds", "description", "deviations"}),
    }
