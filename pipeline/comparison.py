"""Run records to statistics: every variant of a benchmark against the baseline, paired by seed."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from pipeline import statistics
from pipeline.errors import InputError
from pipeline.records import EpochRecord, RunRecord
from pipeline.study import RunKey, Study


class Run(NamedTuple):
    record: RunRecord
    epochs: Sequence[EpochRecord]


class Pair(BaseModel):
    """A candidate against the baseline of its benchmark.

    `speedup` is time of the baseline over time of the candidate: above 1 the candidate is faster. It is the product
    of `precision_effect` (the policy changed, the batch kept), `batch_effect` (the batch changed, the policy kept) and
    `interaction`, where the study has the runs to tell them apart. `memory_ratio` is the candidate's peak over the
    baseline's. `num_seeds` counts the seeds that both completed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    baseline: str
    candidate: str
    num_seeds: int
    speedup: statistics.Ratio
    precision_effect: statistics.Ratio | None
    batch_effect: statistics.Ratio | None
    interaction: statistics.Ratio | None
    accuracy_difference_pp: statistics.Difference
    equivalence: statistics.Equivalence
    memory_ratio: float | None


class Comparison(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    pairs: list[Pair]

    def find(self, benchmark: str, candidate: str) -> Pair | None:
        """The pair of `candidate` against the baseline, or None."""
        return next((p for p in self.pairs if (p.benchmark, p.candidate) == (benchmark, candidate)), None)


def compare(study: Study, runs: Mapping[RunKey, Run]) -> Comparison:
    """Every pair of the study.

    Raises:
        InputError: a block mixes initial weights or data, so that its runs do not pair.
    """
    for benchmark in study.benchmarks:
        for seed in study.seeds:
            _check_block([runs[key].record for key in runs if (key.benchmark, key.seed) == (benchmark, seed)])
    return Comparison(
        pairs=[
            _pair(study, runs, benchmark, candidate)
            for benchmark in study.benchmarks
            for candidate in study.variants_of(benchmark)
            if candidate != study.comparison.baseline
        ]
    )


def summary(
    study: Study, comparison: Comparison, runs: Mapping[RunKey, Run]
) -> dict[str, dict[str, dict[str, float | None]]]:
    """Plain numbers by benchmark and variant: means over seeds, and the comparison with the baseline."""
    numbers: dict[str, dict[str, dict[str, float | None]]] = {}
    for benchmark, variant in dict.fromkeys(key[:2] for key in runs):
        repeats = [run for key, run in runs.items() if key[:2] == (benchmark, variant)]
        completed = [run for run in repeats if run.record.outcome == "completed"]
        accuracies = [_known(run.record.final_test_accuracy) for run in completed]
        times = [steady_epoch_seconds(run.epochs, study.comparison.num_warmup_epochs) for run in completed]
        seconds = [time for time in times if time is not None]
        numbers.setdefault(benchmark, {})[variant] = {
            "test_accuracy": mean(accuracies) if accuracies else None,
            "epoch_seconds": mean(seconds) if seconds else None,
        }
    for pair in comparison.pairs:
        numbers[pair.benchmark][pair.candidate] |= {
            "speedup": pair.speedup.ratio,
            "accuracy_difference_pp": pair.accuracy_difference_pp.mean,
        }
    return numbers


def _check_block(records: Sequence[RunRecord]) -> None:
    """Refuses runs of one seed that did not start from the same weights and data."""
    for field in ("initial_weights_sha256", "data_sha256"):
        by_value: dict[str, RunRecord] = {}
        for record in records:
            by_value.setdefault(getattr(record, field), record)
        if len(by_value) > 1:
            first, second, *_ = by_value.values()
            raise InputError(
                f"{first.key.directory} and {second.key.directory} differ in {field} and can't be compared. "
                f"Make them again: dvc repro --force --single-item {first.key.stage} {second.key.stage}"
            )


def steady_epoch_seconds(epochs: Sequence[EpochRecord], num_warmup_epochs: int) -> float | None:
    """Median training seconds of the epochs after the warm-up; None where none is left."""
    seconds = [epoch.train_seconds for epoch in epochs if epoch.epoch > num_warmup_epochs]
    return median(seconds) if seconds else None


def _pair(study: Study, runs: Mapping[RunKey, Run], benchmark: str, candidate: str) -> Pair:
    baseline = study.comparison.baseline
    seeds = [
        seed
        for seed in study.seeds
        if all(runs[RunKey(benchmark, name, seed)].record.outcome == "completed" for name in (baseline, candidate))
    ]

    def record(name: str, seed: int) -> RunRecord:
        return runs[RunKey(benchmark, name, seed)].record

    differences_pp = [
        100 * (_known(record(candidate, seed).final_test_accuracy) - _known(record(baseline, seed).final_test_accuracy))
        for seed in seeds
    ]
    memory = [(record(candidate, seed).peak_memory_bytes, record(baseline, seed).peak_memory_bytes) for seed in seeds]
    memory_logs = [math.log(ours / theirs) for ours, theirs in memory if ours and theirs]
    effects = _effects(study, runs, benchmark, candidate)
    return Pair(
        benchmark=benchmark,
        baseline=baseline,
        candidate=candidate,
        num_seeds=len(seeds),
        speedup=statistics.ratio(list(_log_speedups(study, runs, benchmark, candidate).values())),
        precision_effect=effects and effects[0],
        batch_effect=effects and effects[1],
        interaction=effects and effects[2],
        accuracy_difference_pp=statistics.difference(differences_pp),
        equivalence=statistics.equivalence(differences_pp, study.comparison.margin_pp[benchmark]),
        memory_ratio=math.exp(sum(memory_logs) / len(memory_logs)) if memory_logs else None,
    )


def _effects(
    study: Study, runs: Mapping[RunKey, Run], benchmark: str, candidate: str
) -> tuple[statistics.Ratio, statistics.Ratio, statistics.Ratio] | None:
    """Precision, batch and interaction, where policy and batch both differ and the corners between were run."""
    conditions = {
        name: variant.model_dump(exclude={"benchmarks"}) for name, variant in study.variants_of(benchmark).items()
    }
    first, last = conditions[study.comparison.baseline], conditions[candidate]
    if first["policy"] == last["policy"] or first["batch_multiplier"] == last["batch_multiplier"]:
        return None
    corners = [first | {"policy": last["policy"]}, last | {"policy": first["policy"]}]
    names = [name for corner in corners for name, condition in conditions.items() if condition == corner]
    if len(names) != len(corners):
        return None
    whole, precision, batch = (_log_speedups(study, runs, benchmark, name) for name in (candidate, *names))
    seeds = [seed for seed in whole if seed in precision and seed in batch]
    return (
        statistics.ratio([precision[seed] for seed in seeds]),
        statistics.ratio([batch[seed] for seed in seeds]),
        statistics.ratio([whole[seed] - precision[seed] - batch[seed] for seed in seeds]),
    )


def _log_speedups(study: Study, runs: Mapping[RunKey, Run], benchmark: str, candidate: str) -> dict[int, float]:
    """log(seconds of the baseline / seconds of the candidate) by seed, for seeds that both completed."""
    logs = {}
    for seed in study.seeds:
        pair = [runs[RunKey(benchmark, name, seed)] for name in (study.comparison.baseline, candidate)]
        seconds = [steady_epoch_seconds(run.epochs, study.comparison.num_warmup_epochs) for run in pair]
        if all(run.record.outcome == "completed" for run in pair) and seconds[0] and seconds[1]:
            logs[seed] = math.log(seconds[0] / seconds[1])
    return logs


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a completed run has a test accuracy")
    return value
