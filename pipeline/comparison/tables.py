"""Define, format and read the tables `runs.csv` (a row per run) and `pairs.csv` (a row per pair of variants)."""

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
# warm-up, and `validation_seconds` is the median time of a validation. `num_late_steps` counts the steps after the
# first epoch, and `num_late_skips` counts the ones that a dynamic loss scale skipped. `timing_fault` gives the reason
# if the times of a run don't count.
RUN_COLUMNS = (
    *("benchmark", "variant", "seed", "outcome", "test_accuracy", "validation_accuracy", "test_loss"),
    *("num_test_examples", "initial_weights_sha256", "final_weights_sha256"),
    *("epoch_seconds", "validation_seconds", "peak_memory_bytes", "memory_kind"),
    *("started_at", "run_seconds", "resumed"),
    *("first_not_finite", "skipped_steps", "num_late_skips", "num_late_steps"),
    *("other_cpu_share", "timing_fault", "data_source", "kernels"),
    *("device", "device_kind", "compute_capability", "device_memory_bytes", "cpu_features"),
)
# Columns of `pairs.csv`. `missing_candidate` lists the planned seeds without a run of the candidate. `num_failed_*`
# counts failed runs whose seed the other variant completed or lacks. Differences are candidate − baseline, in
# percentage points, with 95 % intervals. Holm's method adjusts p-values over `num_candidates` pairs. `reason` gives the
# reason if tests can't be trusted. The candidate loses at most `most_loss_pp` percentage points. This bound has 95 %
# confidence for all recommendable candidates together. `changed_share` is the mean share of test predictions that
# differ between baseline and candidate at equal seeds. `changed_by_seed_share` is the mean share that differs between
# two seeds of the baseline. `speedup` is the baseline's time divided by the candidate's time. `speedup_low` and
# `speedup_high` hold for any day, `sitting_low` and `sitting_high` only for this measurement. `epoch_speedup` is the
# speedup of whole epochs with their validation. `candidate_kernel_share` is the share of the candidate's CPU time that
# the operating system's kernel took. `*_fault` is the outcome of a process that failed while speed was measured.
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
    """Hold a row of a table, with one attribute per column. Unknown cells are None.

    In a row of `pairs.csv`, each name in `ESTIMATES` is an attribute in place of its three columns.
    """


def pair_row(cells: Mapping[str, Any]) -> Row:
    """Return a row of `pairs.csv` from its known fields: estimates, and cells of other columns.

    Unknown estimates are empty, and unknown cells are None.
    """
    blank: dict[str, Any] = {name: None for name in PAIR_COLUMNS if name not in _IN_ESTIMATES}
    return Row(**blank | dict.fromkeys(ESTIMATES, Estimate()) | dict(cells))


def pair_cells(row: Row) -> dict[str, Any]:
    """Return the cells of a row from `pair_row`, by column of `pairs.csv`."""
    cells = {name: value for name, value in vars(row).items() if name not in ESTIMATES}
    for name, columns in ESTIMATES.items():
        cells |= zip(columns, astuple(getattr(row, name)), strict=True)
    return cells


def read_pair(row: Row) -> Row:
    """Return a row with estimates, like `pair_row`, from a row of `pairs.csv` as `read_table` returns it."""
    cells = vars(row)
    estimates = {name: Estimate(*map(cells.get, columns)) for name, columns in ESTIMATES.items()}
    return pair_row({name: cell for name, cell in cells.items() if name not in _IN_ESTIMATES} | estimates)


class Tables(NamedTuple):
    """Hold the rows of `runs.csv` and the rows of `pairs.csv`."""

    runs: Sequence[Row]
    pairs: Sequence[Row]

    def runs_of(self, benchmark: str, variant: str | None = None) -> list[Row]:
        """Return the runs of a benchmark, or only the runs of one variant on that benchmark."""
        return [row for row in self.runs if row.benchmark == benchmark and variant in (None, row.variant)]

    def pair(self, benchmark: str, candidate: str, baseline: str) -> Row | None:
        """Return the row of a pair, or None if the two variants were not compared."""
        wanted = benchmark, candidate, baseline
        return next((row for row in self.pairs if (row.benchmark, row.candidate, row.baseline) == wanted), None)

    def hardware(self) -> list[Hardware]:
        """Return the distinct classes of hardware in the tables, those of speed measurements first."""
        return list(dict.fromkeys(hardware_of_row(row) for row in (*self.pairs, *self.runs) if row.device))


def hardware_cells(hardware: Hardware, device: str) -> dict[str, Any]:
    """Return the cells that describe the hardware of a row, by column."""
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
    import pandas as pd  # takes a second, which a command without tables of a study need not spend

    return str(pd.DataFrame(list(rows), columns=list(columns), dtype=object).to_csv(index=False, lineterminator="\n"))


def read_table(path: Path) -> list[Row]:
    """Return the rows of a CSV file, with one attribute for each column. Raise `InputError` if the file is missing."""
    if not path.is_file():
        raise InputError(f"{path} is missing. Make it with: dvc repro")
    import pandas as pd

    # pandas's Python parser reads each number as Python does. The C parser may be off in the last digit.
    how: dict[str, Any] = {"engine": "python", "dtype_backend": "numpy_nullable", "keep_default_na": False}
    how["dtype"] = dict.fromkeys(TEXT_COLUMNS, "string")
    frame = pd.read_csv(path, na_values=[""], **how).astype(object)
    return [Row(**row) for row in frame.where(frame.notna(), None).to_dict("records")]


def read_tables(study: Study, root: Path = Path()) -> Tables:
    """Return the tables under `root`.

    Raises:
        InputError: a table is missing, or `runs.csv` has a run that `study` does not plan.
    """
    runs, planned = read_table(root / RUNS), set(study.runs())
    if any(RunKey(row.benchmark, row.variant, row.seed) not in planned for row in runs):
        raise InputError(f"{root / RUNS} belongs to a different study from the one in params.yaml. Run: dvc repro")
    return Tables(runs, list(map(read_pair, read_table(root / PAIRS))))
