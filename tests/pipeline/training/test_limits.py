"""Runs that take too long, or too much memory: outcomes in a record, wherever it happens."""

import os
import time

import pytest
from conftest import ENGINE, benchmark, changed, epoch_records, planned_record, small_study, timed

from pipeline.comparison.comparable import check_comparable
from pipeline.comparison.finished_runs import Run, read_predictions
from pipeline.comparison.paired_runs import compare
from pipeline.errors import InputError
from pipeline.machine.engine_choice import SWITCH, choose_engine, kernels_for
from pipeline.records.schema import planned
from pipeline.report.answers import advice, answers
from pipeline.study.schema import RunKey, Study
from pipeline.training import run

KEY = RunKey("wide", "float32", 0)


def study(**recipe):
    return small_study(seeds=[0], benchmarks={"wide": benchmark(units=8, **recipe), "narrow": benchmark(units=8)})


def test_a_run_that_ends_early_after_its_test_has_no_scores_of_an_end(workspace, monkeypatch):
    """It may run out of memory, or of time, between the test and its record."""

    tested = run._test

    def without_memory(*arguments):
        tested(*arguments)
        raise MemoryError

    monkeypatch.setattr(run, "_test", without_memory)
    record = run.train(study(), KEY, time.perf_counter(), workspace)
    assert (record.outcome, record.scores.test_accuracy, record.final_weights_sha256) == ("out_of_memory", None, None)
    assert not read_predictions(record, workspace).size


def runs(outcome, run_seconds=120.0, max_run_seconds=120.0, **more):
    """The small study, in which every run of `mixed` ended so and every other took 10 s in all."""
    made = {}
    for key in small_study().runs():
        changes, seconds = {}, (9.0, 2.0)
        if key.variant == "mixed":
            changes = {"outcome": outcome, "final_test_accuracy": None, "num_epochs": 0, "run_seconds": run_seconds}
            changes, seconds = changes | {"max_run_seconds": max_run_seconds} | more, ()
        record = planned_record(key, **changes)
        made[key] = Run(record, epoch_records(*seconds))
    return made


def test_what_is_too_slow_is_so_many_times_slower_at_least():
    limited = small_study(max_run_seconds=120.0)
    comparison = compare(limited, runs("too_slow"), timed(limited, {}, failed={"mixed": "too_slow"}))
    pair = comparison.find("wide", "mixed")
    assert pair.speedup.ratio is None
    assert pair.speedup_at_most == pytest.approx(10 / 120)
    assert pair.failures == {"too_slow": 3}
    assert comparison.variant("wide", "mixed").completed.count == 0

    class Results:
        pass

    results = Results()
    results.study, results.comparison = limited, comparison
    assert advice(results, "wide") == "Stay with float32. mixed is at least 12.0 times slower than float32."


def test_a_step_that_is_compiled_does_not_start_as_one_that_is_not():
    """All of its time may be the compiler's."""
    values = small_study(max_run_seconds=120.0).model_dump(mode="json")
    values["variants"]["mixed"]["jit_compile"] = True
    limited = Study.model_validate(values)
    compiled = {
        key: run._replace(record=changed(run.record, jit_compile=key.variant == "mixed"))
        for key, run in runs("too_slow").items()
    }
    comparison = compare(limited, compiled, timed(limited, {}, failed={"mixed": "too_slow"}))
    assert comparison.find("wide", "mixed").speedup_at_most is None


def test_more_epochs_take_longer_whatever_the_speed():
    values = small_study(max_run_seconds=120.0).model_dump(mode="json")
    values["variants"]["mixed"]["epoch_multiplier"] = 2
    limited = Study.model_validate(values)
    longer = {
        key: run._replace(record=run.record.model_copy(update={"planned": planned(limited, key)}))
        for key, run in runs("too_slow").items()
    }
    comparison = compare(limited, longer, timed(limited, {}, failed={"mixed": "too_slow"}))
    assert comparison.find("wide", "mixed").speedup_at_most is None


def test_what_ran_out_of_memory_has_no_such_bound():
    assert (
        compare(small_study(), runs("out_of_memory"), timed(small_study(), {}, failed={"mixed": "out_of_memory"}))
        .find("wide", "mixed")
        .speedup_at_most
        is None
    )


def test_a_bound_on_speed_needs_a_machine_of_its_own():
    """Other work may be all that made it slow."""
    busy = planned_record(KEY).disturbance.model_copy(update={"other_cpu_share": 0.9})
    limited = small_study(max_run_seconds=120.0)
    limited = limited.model_copy(
        update={"comparison": limited.comparison.model_copy(update={"max_other_cpu_share": 0.25})}
    )
    assert (
        compare(limited, runs("too_slow", disturbance=busy), timed(limited, {}, failed={"mixed": "too_slow"}))
        .find("wide", "mixed")
        .speedup_at_most
        is None
    )


def test_a_run_ended_at_another_limit_is_made_again():
    """A larger limit asks for it; a run that completed under the smaller one is as good as ever."""
    records = {key: made.record for key, made in runs("too_slow").items()}
    check_comparable(small_study(max_run_seconds=120.0), records)
    with pytest.raises(InputError, match=r"max_run_seconds 120\.0, the study says 240\.0") as error:
        check_comparable(small_study(max_run_seconds=240.0), records)
    assert "float32" not in str(error.value)


@pytest.mark.parametrize(
    ("policies", "features", "expected"),
    [
        (["mixed_float16"], ["avx512_fp16"], "own"),
        (["float32", "float16"], ["avx2", "avx512_fp16"], "own"),
        (["float32", "mixed_bfloat16"], ["avx512_fp16"], "usual"),
        (["mixed_float16"], ["avx2", "avx512_bf16"], "usual"),
    ],
)
def test_float16_is_kept_from_kernels_that_fall_back(policies, features, expected):
    assert kernels_for(policies, features) == expected


@pytest.mark.parametrize(("set_by_user", "expected"), [(None, "0"), ("1", "1")])
def test_a_switch_that_the_user_has_set_is_kept(monkeypatch, set_by_user, expected):
    monkeypatch.setenv("KERAS_BACKEND", ENGINE)
    monkeypatch.setenv(SWITCH, "")
    monkeypatch.setenv(SWITCH, set_by_user) if set_by_user else monkeypatch.delenv(SWITCH)
    monkeypatch.setattr("pipeline.machine.engine_choice.cpu_features", lambda: ["avx512_fp16"])
    choose_engine(ENGINE, ["mixed_float16"])
    assert os.environ[SWITCH] == expected


def test_a_pair_on_different_kernels_says_so():
    made = runs("completed", final_test_accuracy=0.9)
    for key, finished in made.items():
        record = finished.record
        if key.variant == "mixed":
            record = planned_record(key, environment=record.environment | {"kernels": "oneDNN"})
        made[key] = Run(record, epoch_records(9.0, 2.0))

    class Results:
        study, comparison, runs = small_study(), compare(small_study(), made, timed(small_study(), {})), ()

    notes = [row.note for row in answers(Results, "wide")]
    assert "mixed computed with kernels of oneDNN, float32 with those of Eigen" in notes


def test_the_record_names_the_kernels(workspace):
    record = run.train(study(), KEY, time.perf_counter(), workspace)
    assert record.environment["kernels"] in ({"XLA"} if ENGINE == "jax" else {"oneDNN", "Eigen", "CUDA"})
