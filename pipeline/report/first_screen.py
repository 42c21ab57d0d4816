"""Build the tables of the report's first screen, which compare the variants of a benchmark with the baseline."""

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from pipeline.comparison.tables import Row, Tables, hardware_of_row
from pipeline.records.blocks import REPEAT
from pipeline.records.run_record import Outcome
from pipeline.report.names import variant_name
from pipeline.report.peak import share_of_peak
from pipeline.statistics.intervals import MIN_SEEDS, Estimate
from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study
from pipeline.study.variant import DEFAULT_POLICY, Variant
from pipeline.words.numbers import decimals, digits, interval, mebibytes
from pipeline.words.sentences import Said, sentence


class Cell(NamedTuple):
    """Hold the text of a cell: a value and, if it has one, its interval."""

    value: str = ""
    interval: str = ""

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".strip()


class VariantRow(NamedTuple):
    """Hold a variant's results, and how they compare with the baseline's. Unknown or meaningless values are None.

    `accuracy`, in [0, 1], is the mean over the seeds that are compared with the baseline's, or over all completed runs
    if the variant is not compared with the baseline. With fewer than three such seeds or runs, `accuracy` is None.

    `run_epoch_seconds` is the median epoch time of the variant's runs, with the range of these times. Runs with a
    timing fault do not count. The field is empty if variants were timed in turns or the baseline has no such time.
    `speed` is relative to the study's baseline. `speed_beside_default` is relative to the plain TF32 variant, if the
    study has such a variant. `peak_bytes` is the peak of the process that was timed in turns. If no process was timed,
    `peak_bytes` is the median peak of the variant's runs, with the range.
    """

    name: str
    words: str
    full_words: str  # the name for readers with the batch multiplier; `words` may leave out the multiplier
    policy: str
    batch_multiplier: int
    group: str  # `SAME_BATCH`, `OTHER_BATCH` or `FURTHER`
    accuracy: float | None
    difference_pp: Estimate
    step_seconds: float | None
    epoch_seconds: float | None
    run_epoch_seconds: Estimate
    speed: Estimate
    speed_beside_default: Estimate
    peak_bytes: Estimate
    share_of_peak: float | None
    notes: list[Said]
    pair: Row | None
    runs: Sequence[Row]

    @property
    def is_known(self) -> bool:
        """Tell whether the row has an accuracy, a step time, a peak or a speed."""
        known = (self.accuracy, self.step_seconds, self.peak_bytes.value, self.speed.value)
        return any(value is not None for value in known)

    def cell(self, column: str) -> Cell:
        """Return the text of this row in a column of `COLUMNS`."""
        return COLUMNS[column](self)

    @property
    def note(self) -> str:
        """Return the notes as text."""
        return " ".join(map(sentence, self.notes))


# The columns of a first-screen table. Each function returns a row's cell, which is empty if nothing is known.
COLUMNS: dict[str, Callable[[VariantRow], Cell]] = {
    "accuracy": lambda row: Cell() if row.accuracy is None else Cell(decimals(100 * row.accuracy, ".2f")),
    "difference": lambda row: in_cell(row.difference_pp, "+.2f") if row.difference_pp.has_interval else Cell(),
    "step": lambda row: Cell(digits(1000 * row.step_seconds) if row.step_seconds else ""),
    "epoch": lambda row: Cell(digits(row.epoch_seconds) if row.epoch_seconds else ""),
    "run_epoch": lambda row: _median_cell(row.run_epoch_seconds, digits),
    "speed": lambda row: in_cell(row.speed, ".2f", "×"),
    "beside_default": lambda row: in_cell(row.speed_beside_default, ".2f", "×"),
    "memory": lambda row: _median_cell(row.peak_bytes, mebibytes),
    "peak": lambda row: Cell(decimals(100 * row.share_of_peak, ".0f") if row.share_of_peak else ""),
}


def in_cell(estimate: Estimate, how: str, unit: str = "") -> Cell:
    """Write an estimate's value and any interval in the format `how`. An unknown value gives an empty cell."""
    if estimate.value is None:
        return Cell()
    return Cell(decimals(estimate.value, how) + unit, interval(estimate, how) if estimate.has_interval else "")


def _median_cell(found: Estimate, write: Callable[[float], str]) -> Cell:
    """Write a median and any range. An unknown median gives an empty cell."""
    if not found.value:
        return Cell()
    ends = [write(number) for number in (found.low, found.high) if number]
    return Cell(write(found.value), f"({' to '.join(ends)})" if len(set(ends)) > 1 else "")


def columns(rows: Sequence[VariantRow]) -> list[str]:
    """Return the names of the columns in which at least one of `rows` has text."""
    return [name for name in COLUMNS if any(row.cell(name).value for row in rows)]


# Groups of rows. The first two have the variants that keep float32 variables and differ from the baseline only in
# precision, at the baseline's batch size or at another. `FURTHER` has all other variants.
SAME_BATCH, OTHER_BATCH, FURTHER = "same", "other", "further"


def variant_rows(study: Study, tables: Tables, benchmark: str) -> list[VariantRow]:
    """Return a row for each variant of `benchmark`: the baseline, TF32, then the others by group, batch and policy."""
    variants = study.variants_of(benchmark)
    strict, default = study.comparison.baseline, study.plain(benchmark, DEFAULT_POLICY)
    policies = list(dict.fromkeys([variants[strict].policy, *(variant.policy for variant in variants.values())]))
    rows = [_row(study, tables, benchmark, name) for name in variants]
    groups = [SAME_BATCH, OTHER_BATCH, FURTHER]

    def place(row: VariantRow) -> Any:
        is_leading = (row.name != strict, row.name != default)
        return *is_leading, groups.index(row.group), row.batch_multiplier, policies.index(variants[row.name].policy)

    return sorted(rows, key=place)


def _row(study: Study, tables: Tables, benchmark: str, name: str) -> VariantRow:
    variants, strict = study.variants_of(benchmark), study.comparison.baseline
    variant, default = variants[name], study.plain(benchmark, DEFAULT_POLICY)
    pair = tables.pair(benchmark, name, strict)
    timed, side = (tables.pair(benchmark, REPEAT, strict), "baseline") if name == strict else (pair, "candidate")
    step_seconds, epoch_seconds, peak = (
        getattr(timed, f"{side}_{what}", None) for what in ("step_seconds", "epoch_seconds", "peak_bytes")
    )
    runs = tables.runs_of(benchmark, name)
    completed = [run for run in runs if run.outcome == "completed"]
    group = FURTHER
    if name in (strict, default):
        group = SAME_BATCH
    elif variant.varies_precision and POLICIES[variant.policy].keeps_float32:
        group = SAME_BATCH if variant.batch_multiplier == variants[strict].batch_multiplier else OTHER_BATCH
    if pair:
        accuracy = pair.candidate_accuracy if (pair.num_seeds or 0) >= MIN_SEEDS else None
    else:
        accuracy = fmean(run.test_accuracy for run in completed) if len(completed) >= MIN_SEEDS else None
    beside_default = tables.pair(benchmark, name, default) if default else None
    return VariantRow(
        name=name,
        words=variant_name(variant, with_batch=group == FURTHER),
        full_words=variant_name(variant, with_batch=True),
        policy=variant.policy,
        batch_multiplier=variant.batch_multiplier,
        group=group,
        accuracy=accuracy,
        difference_pp=pair.difference_pp if pair else Estimate(),
        step_seconds=step_seconds,
        epoch_seconds=epoch_seconds,
        run_epoch_seconds=_run_epochs(tables, benchmark, name, strict),
        speed=pair.speedup if pair else Estimate(),
        speed_beside_default=beside_default.speedup if beside_default else Estimate(),
        peak_bytes=Estimate(peak) if peak else _median(peaks_of_runs(runs)),
        share_of_peak=share_of_peak(study.benchmarks[benchmark], variant, timed, step_seconds),
        notes=_notes(study, tables, benchmark, name, pair, timed, getattr(timed, f"{side}_fault", None)),
        pair=pair,
        runs=runs,
    )


def _run_epochs(tables: Tables, benchmark: str, name: str, strict: str) -> Estimate:
    ours, theirs = (
        [run.epoch_seconds for run in tables.runs_of(benchmark, each) if run.epoch_seconds and not run.timing_fault]
        for each in (name, strict)
    )
    return Estimate() if tables.pair(benchmark, REPEAT, strict) or not theirs else _median(ours)


def _median(values: Sequence[float]) -> Estimate:
    """Return the median with the range, or an empty `Estimate` if there are no values."""
    return Estimate(median(values), min(values), max(values)) if values else Estimate()


def peaks_of_runs(runs: Sequence[Row]) -> list[int]:
    """Return the peak bytes of the completed runs that were not resumed, or an empty list if one is unknown."""
    peaks = [run.peak_memory_bytes for run in runs if run.outcome == "completed" and not run.resumed]
    return peaks if all(peaks) else []


def _is_emulated(variant: Variant, timed: Row) -> bool:
    """Tell whether the device that timed a variant computes the variant's format with wider numbers."""
    policy = POLICIES[variant.policy]
    return policy.is_narrow and timed.device is not None and not hardware_of_row(timed).multiplies(policy.products)


def _notes(
    study: Study,
    tables: Tables,
    benchmark: str,
    name: str,
    pair: Row | None,
    timed: Row | None,
    fault: Outcome | None,
) -> list[Said]:
    """Return the notes of a variant's row.

    Args:
        pair: the comparison with the baseline, if any.
        timed: the row of `pairs.csv` with the variant's times, if any.
        fault: how the variant's process failed while the variants trained in turns, if at all.
    """
    notes, runs = [], tables.runs_of(benchmark, name)
    if name in study.comparison.must_differ:
        notes.append(Said("note.control"))
    if timed and _is_emulated(study.variants[name], timed):
        notes.append(Said("note.emulated"))
    measured_as = study.measured_as(benchmark)[name]
    if pair and pair.device and measured_as != name:
        notes.append(Said("note.timed_as", {"name": variant_name(study.variants[measured_as], with_batch=True)}))
    if fault:
        notes.append(Said("note.not_timed", {"outcome": fault}))
    outcomes = ("diverged", "out_of_memory", "too_slow")
    failed = {outcome: sum(run.outcome == outcome for run in runs) for outcome in outcomes}
    if any(failed.values()):
        where = sorted({run.first_not_finite for run in runs if run.first_not_finite})
        notes.append(Said("note.failed", failed | {"num_runs": len(runs), "where": where}))
    if pair is None:
        return notes
    if pair.num_seeds and pair.num_seeds < len(tables.runs_of(benchmark, pair.baseline)):
        notes.append(Said("note.fewer_seeds", {"num_seeds": pair.num_seeds}))
    kernels, theirs = (
        {run.kernels for run in side if run.kernels} for side in (runs, tables.runs_of(benchmark, pair.baseline))
    )
    if kernels - theirs and theirs:
        notes.append(Said("note.kernels", {"kernels": sorted(kernels), "theirs": sorted(theirs)}))
    return notes
