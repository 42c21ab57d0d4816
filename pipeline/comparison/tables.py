"""Define, write and read the two tables of `compare`: one row per run, and one row per pair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.files.places import PAIRS, RUNS
from pipeline.machine.hardware import Hardware
from pipeline.statistics.intervals import Estimate
from pipeline.study.schema import RunKey, Study

# Columns of `runs.csv`. Accuracies are in [0, 1]. `epoch_seconds` is the median training time of an epoch after the
# warm-up, `validation_seconds` the median time of a validation. `num_late_skips` counts the steps that a dynamic loss
# scale skipped, of the `num_late_steps` after the first epoch. `timing_fault` says why the times of a run don't count.
RUN_COLUMNS = (
    *("benchmark", "variant", "seed", "outcome", "test_accuracy", "validation_accuracy", "test_loss"),
    *("num_test_examples", "initial_weights_sha256", "final_weights_sha256"),
    *("epoch_seconds", "validation_seconds", "peak_memory_bytes", "memory_kind"),
    *("started_at", "run_seconds", "resumed"),
    *("first_not_finite", "skipped_steps", "num_late_skips", "num_late_steps"),
    *("other_cpu_share", "timing_fault", "data_source", "kernels"),
    *("device", "device_kind", "compute_capability", "device_memory_bytes", "cpu_features"),
)
# Columns of `pairs.csv`. Accuracy is compared over the seeds that both variants completed. `missing_candidate` lists
# planned seeds without a run. `num_failed_*` counts failed runs whose seed the other variant completed or lacks.
# Differences are candidate − baseline, in percentage points, with 95 % intervals. p-values are adjusted by Holm's
# method over `num_candidates` pairs. `reason` says why the tests decide nothing. The candidate loses at most
# `most_loss_pp`, with 95 % confidence over all candidates that may be recommended. `changed_share` is the mean share of
# test predictions that the candidate changes with equal seeds; another seed of the baseline changes
# `changed_by_seed_share`. `speedup` is the baseline's time over the candidate's. Its interval holds for another day;
# `sitting_*` holds only for this measurement. `epoch_speedup` is the speedup of whole epochs with their validation.
# `candidate_kernel_share` is the share of the candidate's CPU time that the system's kernel took. `*_fault` says how a
# process failed in the turns.
PAIR_COLUMNS = (
    *("benchmark", "baseline", "candidate"),
    *("num_seeds", "missing_candidate", "num_failed_baseline", "num_failed_candidate"),
    *("num_diverged_baseline", "num_diverged_candidate", "baseline_accuracy", "candidate_accuracy"),
    *("difference_pp", "difference_low_pp", "difference_high_pp"),
    *("most_loss_pp", "p_loss_within_margin", "p_different", "margin_pp", "p_equivalent"),
    *("p_beyond_margin", "outcome", "reason", "num_candidates", "num_seeds_needed"),
    *("changed_share", "least_changed_share", "most_changed_share", "changed_by_seed_share"),
    *("speedup", "speedup_low", "speedup_high", "sitting_low", "sitting_high"),
    *("epoch_speedup", "epoch_speedup_low", "epoch_speedup_high", "num_launches", "num_turns", "other_cpu_share"),
    *("num_blocks_left_out", "side_by_side", "baseline_step_seconds", "candidate_step_seconds"),
    *("baseline_epoch_seconds", "candidate_epoch_seconds", "baseline_peak_bytes", "candidate_peak_bytes"),
    *("candidate_kernel_share", "baseline_fault", "candidate_fault"),
    *("memory_ratio", "memory_ratio_low", "memory_ratio_high", "images_on_device", "device", "device_kind"),
    *("compute_capability", "device_memory_bytes", "cpu_features"),
)
# A row in memory has an `Estimate` in place of three columns: a value and the ends of its interval.
ESTIMATES = {
    "difference_pp": ("difference_pp", "difference_low_pp", "difference_high_pp"),
    "sitting": ("speedup", "sitting_low", "sitting_high"),
    "speedup": ("speedup", "speedup_low", "speedup_high"),
    "epoch_speedup": ("epoch_speedup", "epoch_speedup_low", "epoch_speedup_high"),
    "memory_ratio": ("memory_ratio", "memory_ratio_low", "memory_ratio_high"),
}
_IN_ESTIMATES = {column for columns in ESTIMATES.values() for column in columns}
# Columns read as text even if a cell looks like a number, such as a single missing seed.
TEXT_COLUMNS = (
    *("benchmark", "variant", "baseline", "candidate", "missing_candidate", "outcome", "reason"),
    *("device", "device_kind", "cpu_features", "memory_kind", "kernels", "data_source", "started_at"),
    *("first_not_finite", "timing_fault", "initial_weights_sha256", "final_weights_sha256"),
    *("baseline_fault", "candidate_fault"),
)


class Row(SimpleNamespace):
    """Hold a row of a table, one attribute per column, except for `ESTIMATES`. Unknown cells are None."""


def pair_row(cells: Mapping[str, Any]) -> Row:
    """Return a row of `pairs.csv` from its known fields: estimates, and cells of other columns."""
    blank: dict[str, Any] = {name: None for name in PAIR_COLUMNS if name not in _IN_ESTIMATES}
    return Row(**blank | dict.fromkeys(ESTIMATES, Estimate()) | dict(cells))


def pair_cells(row: Row) -> dict[str, Any]:
    """Return the cells of a row of `pairs.csv`, by column."""
    cells = {name: value for name, value in vars(row).items() if name not in ESTIMATES}
    for name, columns in ESTIMATES.items():
        cells |= zip(columns, astuple(getattr(row, name)), strict=True)
    return cells


def read_pair(row: Row) -> Row:
    """Return a row of `pairs.csv` as `pair_row` does, from its cells."""
    cells = vars(row)
    estimates = {name: Estimate(*map(cells.get, columns)) for name, columns in ESTIMATES.items()}
    return pair_row({name: cell for name, cell in cells.items() if name not in _IN_ESTIMATES} | estimates)


class Tables(NamedTuple):
    """Hold the rows of both tables."""

    runs: Sequence[Row]
    pairs: Sequence[Row]

    def runs_of(self, benchmark: str, variant: str | None = None) -> list[Row]:
        """Return the runs of a benchmark, or of one variant on it."""
        return [row for row in self.runs if row.benchmark == benchmark and variant in (None, row.variant)]

    def pair(self, benchmark: str, candidate: str, baseline: str) -> Row | None:
        """Return the row of a pair, or None if the two variants were not compared."""
        wanted = benchmark, candidate, baseline
        return next((row for row in self.pairs if (row.benchmark, row.candidate, row.baseline) == wanted), None)

    def hardware(self) -> list[Hardware]:
        """Return the distinct hardware on which the study ran and was timed."""
        return list(dict.fromkeys(hardware_of_row(row) for row in (*self.pairs, *self.runs) if row.device))


def hardware_cells(hardware: Hardware, device: str) -> dict[str, Any]:
    """Return the cells that name the hardware of a row."""
    return {
        "device": device,
        "device_kind": hardware.kind,
        "compute_capability": hardware.compute_capability,
        "device_memory_bytes": hardware.memory_bytes,
        "cpu_features": None if hardware.cpu_features is None else " ".join(hardware.cpu_features) or "none",
    }


def hardware_of_row(row: Row) -> Hardware:
    """Return the hardware that a row's cells describe, named as in the row's `device`."""
    features = None if row.cpu_features is None else tuple(row.cpu_features.replace("none", "").split())
    return Hardware(row.device_kind, row.device, row.compute_capability, row.device_memory_bytes, features)


def table_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of a CSV file. Unknown cells are empty, and numbers have all their digits."""
    import pandas as pd  # takes a second, and judging a table of runs needs none of it

    return str(pd.DataFrame(list(rows), columns=list(columns), dtype=object).to_csv(index=False, lineterminator="\n"))


def read_table(path: Path) -> list[Row]:
    """Return the rows of a CSV file that `compare` wrote. Raise `InputError` if it is missing."""
    if not path.is_file():
        raise InputError(f"{path} is missing. Make it with: dvc repro")
    import pandas as pd

    # pandas's Python parser reads each number as Python does. Its C parser is off in the last digit.
    how: dict[str, Any] = {"engine": "python", "dtype_backend": "numpy_nullable", "keep_default_na": False}
    how["dtype"] = dict.fromkeys(TEXT_COLUMNS, "string")
    frame = pd.read_csv(path, na_values=[""], **how).astype(object)
    return [Row(**row) for row in frame.where(frame.notna(), None).to_dict("records")]


def read_tables(study: Study, root: Path = Path()) -> Tables:
    """Return the tables under `root`. Raise `InputError` if they are missing, or belong to another study."""
    runs, planned = read_table(root / RUNS), set(study.runs())
    if any(RunKey(row.benchmark, row.variant, row.seed) not in planned for row in runs):
        raise InputError(f"{root / RUNS} belongs to a different study from the one in params.yaml. Run: dvc repro")
    return Tables(runs, list(map(read_pair, read_table(root / PAIRS))))
