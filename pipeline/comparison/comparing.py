"""Turn the runs and speed measurements of a study into tables: one row per run, and one row per pair of variants."""

import json
from collections.abc import Collection, Hashable, Mapping
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from pipeline.comparison.finished_runs import (
    Run,
    check_comparable,
    read_circumstances,
    read_runs,
    read_speeds,
    remedy_of_speed,
    surroundings,
)
from pipeline.comparison.pairing import Question, set_beside
from pipeline.comparison.tables import (
    PAIR_COLUMNS,
    RUN_COLUMNS,
    Row,
    Tables,
    hardware_cells,
    pair_cells,
    pair_row,
    table_text,
)
from pipeline.errors import InputError
from pipeline.files.places import EPOCHS, PAIRS, RUNS, SPEED
from pipeline.machine.hardware import device_name, hardware_of
from pipeline.machine.left_out import study_as_made
from pipeline.records.blocks import REPEAT
from pipeline.records.run_record import EpochRecord
from pipeline.statistics import circumstances
from pipeline.statistics.another_day import on_another_day
from pipeline.statistics.circumstances import is_busy
from pipeline.statistics.intervals import Estimate
from pipeline.statistics.speeds import Speeds
from pipeline.study.policies import POLICIES
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import DEFAULT_POLICY, MIXED

NUM_WARMUP_EPOCHS = 1  # of each process, in which the engine traces, compiles and tunes
# The decimal places of each metric. Each metric has its own file, because DVC shows one row per file, and a row of all
# metrics would not fit into the 80 columns of a terminal.
METRICS = {"difference_pp": 3, "speedup": 4, "candidate_accuracy": 5, "candidate_epoch_seconds": 4}


class Measured(NamedTuple):
    """Hold the speeds of a benchmark, and the environment in which the last launch measured them."""

    speeds: Speeds
    environment: Mapping[str, Any]
    images_on_device: bool = False

    @property
    def device(self) -> str:
        return device_name(self.environment)


def compare_runs(root: Path = Path(), without: Collection[RunKey] = (), without_speed: Collection[str] = ()) -> Tables:
    """Compare the runs and the speeds of the study under `root`. Write the results there, and return the tables.

    A cell is empty if its value is unknown.

    Args:
        without: runs to leave out.
        without_speed: benchmarks whose speed measurement is to be left out.

    Raises:
        InputError: nothing was run or measured; or a file is missing, damaged, or does not fit the study or the other
            files.
    """
    study = study_as_made(root)
    runs = read_runs(study, root, without)
    measured = {
        name: _read_measured(study, name, root)
        for name in study.timed_benchmarks
        if name not in without_speed and (root / SPEED / name).exists()
    }
    if not runs and not measured:
        raise InputError(f"{root / 'runs'} has no run of the study, {root / SPEED} has no speed. Make them: dvc repro")
    tables = tabulate(study, runs, measured)
    for name, speed in measured.items():
        _check_surroundings(name, speed, runs, root)
    texts = {
        RUNS: table_text(RUN_COLUMNS, map(vars, tables.runs)),
        PAIRS: table_text(PAIR_COLUMNS, map(pair_cells, tables.pairs)),
        EPOCHS: table_text(
            [*RunKey._fields, *EpochRecord.model_fields],
            (key._asdict() | epoch.model_dump() for key, run in runs.items() for epoch in run.epochs),
        ),
        **{
            Path(f"results/{name}.json"): json.dumps(metrics, indent=2) + "\n"
            for name, metrics in summarise(study, tables).items()
        },
    }
    (root / "results").mkdir(exist_ok=True)
    for path, text in texts.items():
        (root / path).write_text(text, encoding="utf-8", newline="")
    return tables


def _read_measured(study: Study, benchmark: str, root: Path) -> Measured:
    launch = read_circumstances(benchmark, root).launches[-1]
    return Measured(read_speeds(study, benchmark, root), launch.environment, launch.images_on_device)


def _check_surroundings(benchmark: str, measured: Measured, runs: Mapping[RunKey, Run], root: Path) -> None:
    """Check that speed was measured on a device on which a run was made, and with software with which a run was made.

    The software consists of the engine, the packages and the container image. Without runs, nothing is checked.

    Raises:
        InputError: no run has the same device or software. The message names the difference, and the command that
            measures again.
    """
    ours = surroundings(measured.environment)
    made = [surroundings(run.record.environment) for run in runs.values()]
    for what in ("device", "engine", "packages", "container image"):
        known = dict.fromkeys(theirs[what] for theirs in made)
        if made and ours[what] not in known:
            raise InputError(
                f"{root / SPEED / benchmark} and the runs can't be compared: they differ in {what} "
                f"({ours[what]}; {'; '.join(known)}). {remedy_of_speed(benchmark)}"
            )


def tabulate(study: Study, runs: Mapping[RunKey, Run], measured: Mapping[str, Measured]) -> Tables:
    """Return the tables, with a row for each run, and a row for each pair of variants.

    Args:
        measured: the measured speeds, by benchmark.

    Raises:
        InputError: runs can't be compared, or were not made as the study says (`check_comparable`).
    """
    check_comparable(study, {key: run.record for key, run in runs.items()})
    run_rows = [run_row(study, key, run, measured.get(key.benchmark)) for key, run in runs.items()]
    pair_rows = [row for name in study.benchmarks for row in _pair_rows(study, name, runs, measured.get(name))]
    return Tables(
        [Row(**dict.fromkeys(RUN_COLUMNS) | row) for row in run_rows],
        list(map(pair_row, pair_rows)),
    )


def run_row(study: Study, key: RunKey, run: Run, measured: Measured | None) -> dict[str, Any]:
    """Return the row of a run in `runs.csv`."""
    record, epochs = run.record, run.epochs
    late_skips, late_steps = _late_skips(run)
    steady = [epoch.train_seconds for epoch in epochs if epoch.since_start > NUM_WARMUP_EPOCHS]
    return key._asdict() | {
        "outcome": record.outcome,
        "test_accuracy": record.scores.test_accuracy,
        "validation_accuracy": epochs[-1].validation_accuracy if record.outcome == "completed" else None,
        "test_loss": record.scores.test_loss,
        "num_test_examples": record.num_test_examples,
        "initial_weights_sha256": record.initial_weights_sha256,
        "final_weights_sha256": record.final_weights_sha256,
        "epoch_seconds": median(steady) if steady else None,
        "validation_seconds": median(epoch.validation_seconds for epoch in epochs) if epochs else None,
        "peak_memory_bytes": record.memory.peak_bytes,
        "memory_kind": record.memory.peak_kind,
        "started_at": record.started_at,
        "run_seconds": record.times.run_seconds,
        "resumed": record.resumed,
        "first_not_finite": record.first_not_finite,
        "skipped_steps": epochs[-1].skipped_steps if epochs else None,
        "num_late_skips": late_skips,
        "num_late_steps": late_steps,
        "other_cpu_share": record.disturbance.other_cpu_share,
        "timing_fault": _timing_fault(study, run, measured),
        "data_source": record.data_source,
        "kernels": record.environment.get("kernels"),
        **hardware_cells(hardware_of(record.environment), device_name(record.environment)),
    }


def _late_skips(run: Run) -> tuple[int | None, int | None]:
    """Return the number of skipped steps after the first epoch, and the number of all steps after the first epoch.

    The two numbers are None if the run did not complete, has only one epoch, or has no dynamic loss scale, or if the
    skipped steps of an epoch are unknown.
    """
    counts = [epoch.skipped_steps for epoch in run.epochs if epoch.skipped_steps is not None]
    is_known = run.record.planned.loss_scale.mode == "dynamic" and len(counts) == len(run.epochs) > 1
    if not is_known or run.record.outcome != "completed":
        return None, None
    return counts[-1] - counts[0], (len(counts) - 1) * run.record.planned.steps_per_epoch


def _timing_fault(study: Study, run: Run, measured: Measured | None) -> str | None:
    """Return the reason why a run's times don't count, such as "another device" or "busy CPUs", or None."""
    if measured and device_name(run.record.environment) != measured.device:
        return "another device"
    why = "runs side by side" if study.runs_at_once.get(run.record.benchmark, 1) > 1 else "busy CPUs"
    return run.record.times.fault or (why if is_busy(run.record.disturbance.other_cpu_share) else None)


def _pair_rows(
    study: Study, benchmark: str, runs: Mapping[RunKey, Run], measured: Measured | None
) -> list[dict[str, Any]]:
    """Return one row per pair of variants and, if speed was measured, a row that compares the baseline with itself.

    This last row shows the effect of chance on speed: it compares the second process of the baseline with the first.
    """
    of_variants = {
        name: {
            seed: _result(runs[key])
            for seed in study.seeds_of(benchmark, name)
            if (key := RunKey(benchmark, name, seed)) in runs
        }
        for name in study.variants_of(benchmark)
    }
    pairs = [
        (baseline, candidate)
        for baseline, candidate in pairs_of(study, benchmark)
        if measured or (of_variants[baseline] and of_variants[candidate])
    ]
    families = [_family(study, *pair) for pair in pairs]
    margin_pp = study.comparison.margin_pp[benchmark]
    at_risk = study.recommendable(benchmark)
    num_losses = [
        len(at_risk) if baseline == study.comparison.baseline and candidate in at_risk else 0
        for baseline, candidate in pairs
    ]
    compared = set_beside(of_variants, pairs, families, num_losses, Question(margin_pp / 100))
    rows = []
    for (baseline, candidate), cells in zip(pairs, compared, strict=True):
        row: dict[str, Any] = {"benchmark": benchmark, "baseline": baseline, "candidate": candidate}
        row |= _in_points(cells) | {"margin_pp": margin_pp}
        row |= changed_shares(*(_predictions(study, benchmark, name, runs) for name in (baseline, candidate)))
        missing = [seed for seed in study.seeds_of(benchmark, candidate) if seed not in of_variants[candidate]]
        row["missing_candidate"] = " ".join(map(str, missing)) or None
        if not of_variants[baseline] or not of_variants[candidate]:
            row |= {"reason": "no_runs", "outcome": None}
        rows.append(row | (_speed_cells(study, benchmark, baseline, candidate, measured) if measured else {}))
    if measured:
        baseline = study.comparison.baseline
        row = {"benchmark": benchmark, "baseline": baseline, "candidate": REPEAT}
        rows.append(row | _speed_cells(study, benchmark, baseline, REPEAT, measured))
    return rows


def pairs_of(study: Study, benchmark: str) -> list[tuple[str, str]]:
    """Return (baseline, candidate) for every pair on `benchmark`.

    Pairs with the study's baseline come first. If the study has a plain variant of TF32, pairs with that variant as the
    baseline come next. The study's `further_pairs` come last.
    """
    settings, variants = study.comparison, study.variants_of(benchmark)
    pairs = [(settings.baseline, name) for name in variants if name != settings.baseline]
    if default := study.plain(benchmark, DEFAULT_POLICY):
        pairs += [(default, name) for name in variants if name not in (settings.baseline, default)]
    pairs += [(pair.baseline, pair.candidate) for pair in settings.further_pairs]
    return [pair for pair in dict.fromkeys(pairs) if variants.keys() >= set(pair)]


def _result(run: Run) -> Row:
    """Return the fields of a run that `set_beside` uses. `result` is the test accuracy, in [0, 1]."""
    return Row(
        outcome=run.record.outcome,
        result=run.record.scores.test_accuracy,
        unit=1 / max(run.record.num_test_examples, 1),
        precision=run.record.planned.policy,
        final_weights_sha256=run.record.final_weights_sha256,
        num_predicted_classes=len(set(run.predicted.tolist())),
    )


def _in_points(compared: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a row that `set_beside` returns into fields of a `pairs.csv` row, with differences in percentage points.

    Fields without a column are left out.
    """
    renamed = {"baseline_mean": "baseline_accuracy", "candidate_mean": "candidate_accuracy"}
    cells = {renamed.get(name, name): value for name, value in compared.items()}
    difference: Estimate = cells.pop("difference")
    cells["difference_pp"] = difference.mapped(lambda share: 100 * share)
    cells["most_loss_pp"] = None if cells["most_loss"] is None else 100 * cells["most_loss"]
    return {name: value for name, value in cells.items() if name in PAIR_COLUMNS}


def _predictions(study: Study, benchmark: str, variant: str, runs: Mapping[RunKey, Run]) -> dict[int, np.ndarray]:
    """Return the predicted classes, integer (num_test_examples,), of each completed run of a variant, by seed."""
    keys = [RunKey(benchmark, variant, seed) for seed in study.seeds_of(benchmark, variant)]
    return {key.seed: runs[key].predicted for key in keys if key in runs and len(runs[key].predicted)}


def changed_shares(theirs: Mapping[int, np.ndarray], ours: Mapping[int, np.ndarray]) -> dict[str, Any]:
    """Return the shares of test predictions that differ between baseline and candidate, and between baseline seeds.

    Baseline and candidate are compared at equal seeds: the mean, smallest and largest share are returned. For the
    baseline's own seeds, the mean over all pairs of seeds is returned. If one of the two comparisons is impossible, the
    result is empty.

    Args:
        theirs: the predicted classes of the baseline's runs, by seed: integer (num_test_examples,) for each run.
        ours: the predicted classes of the candidate's runs, in the same form.
    """
    changed = [float((theirs[seed] != ours[seed]).mean()) for seed in theirs.keys() & ours.keys()]
    by_seed = [float((one != other).mean()) for one, other in combinations(theirs.values(), 2)]
    if not changed or not by_seed:
        return {}
    ends = {"least_changed_share": min(changed), "most_changed_share": max(changed)}
    return {"changed_share": fmean(changed), **ends, "changed_by_seed_share": fmean(by_seed)}


def _family(study: Study, baseline: str, candidate: str) -> Hashable:
    """Return the key of the pair's family. Holm's method adjusts p-values over the pairs with the same key.

    Pairs of a family have the same baseline. Their candidates agree in two properties: each is, or is not, a plain
    variant (`Variant.is_plain`) of a policy other than TF32; and each keeps, or does not keep, float32 variables. A
    pair whose candidate is a control (`must_differ`) is a family of its own.
    """
    if candidate in study.comparison.must_differ:
        return baseline, candidate
    variant = study.variants[candidate]
    policy = POLICIES[variant.policy]
    return baseline, variant.is_plain and variant.policy != DEFAULT_POLICY, policy.keeps_float32


def _speed_cells(study: Study, benchmark: str, baseline: str, candidate: str, measured: Measured) -> dict[str, Any]:
    """Return the fields of a pair's row that concern speed and memory.

    Two variants that differ only in learning rate or epochs share one timing. Such a pair has no ratios.
    """
    speeds, blocks, recipe = measured.speeds, measured.speeds.blocks, study.benchmarks[benchmark]
    cells: dict[str, Any] = {
        "num_launches": len(speeds.num_turns),
        "num_turns": sum(speeds.num_turns),
        "other_cpu_share": circumstances.other_cpu_share(blocks),
        "num_blocks_left_out": sum(block.shares_gpu for block in blocks),
        "side_by_side": circumstances.side_by_side(blocks),
        "images_on_device": measured.images_on_device,
        **hardware_cells(hardware_of(measured.environment), measured.device),
    }
    measured_as = study.measured_as(benchmark) | {REPEAT: REPEAT}
    for side, name in (("baseline", baseline), ("candidate", candidate)):
        variant = study.variants[study.comparison.baseline if name == REPEAT else name]
        seconds = speeds.epoch_seconds(name) if measured_as[name] == name else None
        cells[f"{side}_epoch_seconds"] = seconds
        share = recipe.batch_size * variant.batch_multiplier / recipe.split.num_train_examples  # of an epoch
        cells[f"{side}_step_seconds"] = seconds and seconds * share
        cells[f"{side}_peak_bytes"] = speeds.peak_bytes(name)
        cells[f"{side}_fault"] = circumstances.fault(blocks, measured_as[name])
    cells["candidate_kernel_share"] = circumstances.kernel_share(blocks, candidate)
    if measured_as[baseline] == measured_as[candidate]:
        return cells
    spread, sitting = recipe.sitting_spread, speeds.speedup(baseline, candidate)
    speedup = on_another_day(speeds.log_speedup(baseline, candidate), spread)
    return cells | {
        "speedup": sitting if candidate == REPEAT else speedup,  # REPEAT differs from the baseline only by chance
        "sitting": sitting,
        "epoch_speedup": on_another_day(speeds.log_speedup(baseline, candidate, whole_epochs=True), spread),
        "memory_ratio": speeds.memory_ratio(baseline, candidate),
    }


def summarise(study: Study, tables: Tables) -> dict[str, dict[str, float]]:
    """Return DVC's metrics by quantity and benchmark, without unknown values, which DVC can't subtract.

    The metrics come from one pair per benchmark: the study's baseline, and a plain variant of a mixed policy at the
    baseline's batch size. If several such pairs were compared, the order of `MIXED` decides.
    """
    numbers: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for benchmark in study.benchmarks:
        names = [name for policy in MIXED if (name := study.plain(benchmark, policy))]
        pairs = [tables.pair(benchmark, name, study.comparison.baseline) for name in names]
        row = next(filter(None, pairs), None)
        for name, num_digits in METRICS.items():
            value = row and getattr(row, name)
            if isinstance(value, Estimate):
                value = value.value
            if value is not None:
                numbers[name][benchmark] = round(value, num_digits)
    return numbers
