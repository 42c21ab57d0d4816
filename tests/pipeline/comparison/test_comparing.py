"""From runs and turns to tables: which variants are compared, what their rows hold, and what may be missing."""

from dataclasses import astuple

import numpy as np
import pytest
from conftest import ENVIRONMENT, changed, epoch_records, planned_record, predictions, small_study, timed, timed_blocks

from pipeline.comparison.comparing import Measured, run_row, summarise, tabulate
from pipeline.comparison.finished_runs import Run, check_comparable
from pipeline.comparison.tables import PAIR_COLUMNS, RUN_COLUMNS, pair_cells, read_tables, table_text
from pipeline.errors import InputError
from pipeline.files.places import PAIRS, RUNS
from pipeline.records.blocks import REPEAT
from pipeline.statistics.intervals import Estimate
from pipeline.statistics.speeds import speeds_of
from pipeline.study.schema import RunKey

# Seconds of an epoch: float32 at B, at 2B, mixed at B, at 2B.
SECONDS = {"float32": 8.0, "float32_2x": 4.0, "mixed": 2.0, "mixed_2x": 0.5}
VARIANTS = small_study().model_dump(mode="json")["variants"]
SETTINGS = small_study().comparison.model_dump()


def finished(study, epochs=None) -> dict[RunKey, Run]:
    """A completed run for each of the study."""
    found = {}
    for key in study.runs():
        seconds = SECONDS.get(key.variant, 1.0)
        record = planned_record(key, study)
        found[key] = Run(record, epochs or epoch_records(99.0, seconds, seconds), predictions(record))
    return found


def compare(study, runs=None, **how):
    measured = {name: Measured(speeds, ENVIRONMENT) for name, speeds in timed(study, SECONDS, **how).items()}
    return tabulate(study, finished(study) if runs is None else runs, measured)


def change(runs, variant, seed=None, benchmark="wide", **changes):
    for key, run in runs.items():
        if key.variant == variant and key.benchmark == benchmark and seed in (None, key.seed):
            runs[key] = run._replace(record=changed(run.record, **changes))


def test_every_variant_and_the_repeated_baseline_are_compared_with_the_baseline():
    tables = compare(small_study(), spread=0.1)
    assert [(row.benchmark, row.baseline, row.candidate, row.num_seeds) for row in tables.pairs] == [
        ("wide", "float32", "float32_2x", 3),
        ("wide", "float32", "mixed", 3),
        ("wide", "float32", "mixed_2x", 3),
        ("wide", "float32", REPEAT, None),
        ("narrow", "float32", "float32_2x", 3),
        ("narrow", "float32", REPEAT, None),
    ]
    again = tables.pair("wide", REPEAT, "float32")
    assert again.speedup.low < again.speedup.value < again.speedup.high
    assert again.speedup == again.sitting  # chance has no other day
    pair = tables.pair("wide", "mixed", "float32")
    assert pair.speedup.low < pair.sitting.low < pair.sitting.high < pair.speedup.high


def test_further_pairs_have_their_own_baseline():
    settings = SETTINGS | {"further_pairs": [{"baseline": "float32_2x", "candidate": "mixed_2x"}]}
    tables = compare(small_study(comparison=settings))
    pair = tables.pair("wide", "mixed_2x", "float32_2x")
    assert (pair.speedup.value, pair.num_candidates) == (pytest.approx(8), 1)  # 4 s against 0.5 s
    assert tables.pair("narrow", "mixed_2x", "float32_2x") is None
    backwards = small_study(variants=dict(reversed(VARIANTS.items())))
    assert summarise(backwards, tables)["speedup"]["wide"] == 4  # whatever stands first, at the baseline's batch


def test_every_variant_is_also_compared_with_tf32():
    study = small_study(variants=VARIANTS | {"tf32": {"policy": "tf32", "batch_multiplier": 1}})
    found = [(row.baseline, row.candidate) for row in compare(study).pairs if row.benchmark == "wide"]
    others = ["float32_2x", "mixed", "mixed_2x"]
    assert found == [
        *(("float32", name) for name in (*others, "tf32")),
        *(("tf32", name) for name in others),
        ("float32", REPEAT),
    ]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_variant_with_another_learning_rate_shares_the_speed_but_not_the_accuracy_of_its_twin(is_first):
    """One process measures both, whichever comes first."""
    twins = {f"{name}_scaled": VARIANTS[name] | {"learning_rate_multiplier": 2.0} for name in ("float32", "mixed_2x")}
    study = small_study(variants=twins | VARIANTS if is_first else VARIANTS | twins)
    runs = finished(study)
    change(runs, "mixed_2x_scaled", scores={"test_accuracy": 0.95})
    tables = compare(study, runs, spread=0.1)
    scaled, twin, of_itself = (
        tables.pair("wide", name, "float32") for name in ("mixed_2x_scaled", "mixed_2x", "float32_scaled")
    )
    measured_as = study.measured_as("wide")
    assert scaled.speedup == twin.speedup
    assert (scaled.difference_pp.value, twin.difference_pp.value) == (pytest.approx(5), 0)
    assert (of_itself.speedup, of_itself.candidate_epoch_seconds) == (Estimate(), None)
    assert (scaled.candidate_step_seconds is None) == (measured_as["mixed_2x_scaled"] != "mixed_2x_scaled")


def test_speed_comes_from_turns_and_not_from_runs():
    """However long the epochs of runs took. With 1 s of validation, 8 s and 0.5 s of training become 9 s and 1.5 s."""
    tables = compare(small_study(), finished(small_study(), epoch_records(99.0, 7.0)))
    pair = tables.pair("wide", "mixed", "float32")
    assert {row.epoch_seconds for row in tables.runs} == {7.0}
    assert (pair.speedup.value, pair.num_launches, pair.num_turns) == (pytest.approx(4), 3, 6)
    assert (pair.baseline_epoch_seconds, pair.candidate_epoch_seconds) == pytest.approx((8.0, 2.0), rel=1e-6)
    recipe = small_study().benchmarks["wide"]  # whose last batch is smaller than a step
    share = recipe.batch_size / recipe.split.num_train_examples
    assert pair.candidate_step_seconds == pytest.approx(2.0 * share)
    assert tables.pair("wide", "mixed_2x", "float32").epoch_speedup.value == pytest.approx(9 / 1.5)


def test_accuracies_are_paired_by_seed():
    runs = finished(small_study())
    for seed, accuracy in enumerate((0.90, 0.91, 0.92)):
        change(runs, "mixed", seed, scores={"test_accuracy": accuracy - 0.01})
        change(runs, "float32", seed, scores={"test_accuracy": accuracy})
    pair = compare(small_study(), runs).pair("wide", "mixed", "float32")
    assert (pair.difference_pp.value, pair.baseline_accuracy) == (pytest.approx(-1.0), pytest.approx(0.91))


def test_blocks_left_out_because_of_another_gpu_process_are_counted():
    study = small_study()
    first, *others = timed_blocks(study, "wide", SECONDS)
    blocks = [first.model_copy(update={"num_gpu_processes": 2}), *others]
    tables = tabulate(study, {}, {"wide": Measured(speeds_of(study, "wide", blocks), ENVIRONMENT)})
    assert {row.num_blocks_left_out for row in tables.pairs} == {1}


def test_memory_is_measured_in_turns_after_the_warm_up():
    """The memory of runs does not count, because some of them compiled."""
    runs = finished(small_study())
    change(runs, "mixed", 1, memory={"peak_bytes": 2**30})
    pair = compare(small_study(), runs, peaks={"mixed": 2**19}).pair("wide", "mixed", "float32")
    assert astuple(pair.memory_ratio) == pytest.approx((0.5, 0.5, 0.5))
    assert pair.candidate_peak_bytes == pytest.approx(2**19)
    unknown = compare(small_study(), runs, peaks={"mixed": None}).pair("wide", "mixed", "float32")
    assert (unknown.memory_ratio, unknown.candidate_peak_bytes) == (Estimate(), None)


def test_missing_results_leave_cells_empty_and_the_rest_is_compared():
    study = small_study()
    lacking = ("mixed_2x", 0), ("mixed_2x", 1), ("mixed_2x", 2), ("mixed", 1)
    runs = {key: run for key, run in finished(study).items() if key.benchmark == "wide" and key[1:] not in lacking}
    measured = {name: Measured(of, ENVIRONMENT) for name, of in timed(study, SECONDS).items() if name == "narrow"}
    tables = tabulate(study, runs, measured)
    accuracy_alone = tables.pair("wide", "mixed", "float32")
    assert (accuracy_alone.num_seeds, accuracy_alone.missing_candidate) == (2, "1")
    assert (accuracy_alone.speedup, accuracy_alone.device) == (Estimate(), None)
    assert tables.pair("wide", "mixed_2x", "float32") is None
    speed_alone = tables.pair("narrow", "float32_2x", "float32")
    assert (speed_alone.speedup.value, speed_alone.num_seeds) == (pytest.approx(2), 0)
    assert (speed_alone.outcome, speed_alone.reason) == (None, "no_runs")
    assert [hardware.kind for hardware in tables.hardware()] == ["cpu"]


def test_tables_are_read_back_as_they_were_written(tmp_path):
    """Numbers keep all their digits, names that look like other values stay names, and unknown values are None."""
    study = small_study(variants=VARIANTS | {name: VARIANTS["mixed"] | {"loop": "custom"} for name in ("null", "true")})
    runs = {key: run for key, run in finished(study).items() if key != ("wide", "mixed", 1)}
    tables = compare(study, runs, spread=0.1)
    texts = {
        RUNS: table_text(RUN_COLUMNS, map(vars, tables.runs)),
        PAIRS: table_text(PAIR_COLUMNS, map(pair_cells, tables.pairs)),
    }
    (tmp_path / "results").mkdir()
    for path, text in texts.items():
        (tmp_path / path).write_text(text)
    assert read_tables(study, tmp_path) == tables


@pytest.mark.parametrize(
    ("variant", "reason"),
    [({"policy": "tf32"}, "identical"), ({"policy": "mixed_bfloat16"}, "identical"), ({"loop": "custom"}, None)],
)
def test_final_weights_show_whether_a_precision_took_effect(variant, reason):
    """A custom loop may end with the same weights, as long as its results differ."""
    study = small_study(variants=VARIANTS | {"other": VARIANTS["float32"] | variant})
    runs = finished(study)
    for seed in study.seeds:
        change(runs, "other", seed, scores={"test_accuracy": 0.9 + 0.001 * seed})
    assert compare(study, runs).pair("wide", "other", "float32").reason is None
    change(runs, "other", final_weights_sha256="alike")
    change(runs, "float32", final_weights_sha256="alike")
    pair = compare(study, runs).pair("wide", "other", "float32")
    assert (pair.reason, pair.outcome) == (reason, "inconclusive" if reason else "equivalent")


def test_runs_that_predict_a_single_class_are_flagged():
    runs = {key: run._replace(predicted=np.zeros(100, np.int64)) for key, run in finished(small_study()).items()}
    tables = compare(small_study(), runs)
    assert {row.reason for row in tables.pairs if row.candidate != REPEAT} == {"one_class"}


def test_families_group_candidates_by_what_they_vary_and_exclude_controls():
    others = {
        "custom": VARIANTS["mixed"] | {"loop": "custom"},
        "planted_loss": VARIANTS["float32"] | {"learning_rate_multiplier": 0.5},
        "pure": {"policy": "float16", "batch_multiplier": 1},
        "pure_2x": {"policy": "bfloat16", "batch_multiplier": 2},
    }
    study = small_study(variants=VARIANTS | others, comparison=SETTINGS | {"must_differ": ["planted_loss"]})
    pairs = [row for row in compare(study).pairs if row.benchmark == "wide" and row.candidate != REPEAT]
    assert {row.candidate: row.num_candidates for row in pairs} == {
        "float32_2x": 3,
        "mixed": 3,
        "mixed_2x": 3,
        "custom": 1,
        "planted_loss": 1,
        "pure": 2,
        "pure_2x": 2,
    }


def test_epoch_times_leave_out_the_first_epoch_of_a_process():
    study, key = small_study(), RunKey("wide", "float32", 0)
    for seconds, median in (((50.0, 3.0, 1.0, 2.0), 2.0), ((50.0,), None)):
        run = Run(planned_record(key, study), epoch_records(*seconds), np.empty(0))
        assert run_row(study, key, run, None)["epoch_seconds"] == median


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"other_cpu_share": 0.2}, None),
        ({"other_cpu_share": 0.4}, "busy CPUs"),
        ({"fault": "1 other process on its GPU"}, "1 other process on its GPU"),
    ],
)
def test_a_busy_machine_invalidates_times_but_not_accuracy(changes, fault):
    study = small_study()
    runs = finished(study)
    for key, run in runs.items():
        if key.seed == 0:
            parts = {name: getattr(run.record, name).model_copy(update=changes) for name in ("disturbance", "times")}
            runs[key] = run._replace(record=run.record.model_copy(update=parts))
    tables = compare(study, runs)
    assert {row.timing_fault for row in tables.runs if row.seed == 0} == {fault}
    assert tables.pair("wide", "mixed", "float32").num_seeds == 3


@pytest.mark.parametrize(("policy", "is_dynamic"), [("mixed_float16", True), ("mixed_bfloat16", False)])
def test_steps_skipped_after_the_first_epoch_are_counted_only_under_a_dynamic_loss_scale(policy, is_dynamic):
    """Skipped steps count from the start of a run: 3 by the end of the first of two epochs, 4 by that of the second."""
    epochs = zip(epoch_records(9.0, 1.0), (3, 4), strict=True)
    skipping = [epoch.model_copy(update={"skipped_steps": skipped}) for epoch, skipped in epochs]
    variants = {name: {"policy": of, "batch_multiplier": 1} for name, of in (("float32", "float32"), ("mixed", policy))}
    study = small_study(variants=variants)
    runs = finished(study, skipping)
    change(runs, "mixed", 0, outcome="diverged", scores={"test_accuracy": None})
    rows = compare(study, runs).runs_of("wide", "mixed")
    known = (1, 3) if is_dynamic else (None, None)
    assert [(row.num_late_skips, row.num_late_steps) for row in rows] == [(None, None), known, known]


def test_a_run_stopped_at_another_time_limit_must_be_made_again():
    """A larger limit requires it. A run that completed under the smaller limit stays valid."""
    study = small_study(max_run_seconds=120.0)
    ended = {"outcome": "too_slow", "num_epochs": 0, "times": {"run_seconds": 130.0, "max_run_seconds": 120.0}}
    records = {key: planned_record(key, study, **ended if key.variant == "mixed" else {}) for key in study.runs()}
    check_comparable(study, records)
    with pytest.raises(InputError, match=r"max_run_seconds 120\.0, the study says 240\.0") as error:
        check_comparable(small_study(max_run_seconds=240.0), records)
    assert "float32" not in str(error.value)
