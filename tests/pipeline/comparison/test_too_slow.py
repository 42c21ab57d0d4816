"""What is said of a variant whose runs were ended, because they took too long or too much memory."""

from types import SimpleNamespace

import pytest
from conftest import DEVICE, ENVIRONMENT, epoch_records, planned_record, small_study, timed

from pipeline.comparison.comparable import check_comparable
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare
from pipeline.errors import InputError
from pipeline.report.answers import advice, answers
from pipeline.study.schema import RunKey, Study

BUSY = planned_record(RunKey("wide", "float32", 0)).disturbance.model_copy(update={"other_cpu_share": 0.9})


def ended(outcome: str, variant: dict | None = None, **more) -> SimpleNamespace:
    """The small study, in which every run of `mixed` ended so after two minutes and every other took 10 s in all."""
    values = small_study(max_run_seconds=120.0).model_dump(mode="json")
    values["variants"]["mixed"] |= variant or {}
    values["comparison"]["max_other_cpu_share"] = 0.25
    study = Study.model_validate(values)
    of_mixed = {"outcome": outcome, "final_test_accuracy": None, "num_epochs": 0}
    of_mixed |= {"run_seconds": 120.0, "max_run_seconds": 120.0} | more
    runs = {}
    for key in study.runs():
        changes, seconds = (of_mixed, ()) if key.variant == "mixed" else ({}, (9.0, 2.0))
        runs[key] = Run(planned_record(key, study, **changes), epoch_records(*seconds))
    comparison = compare(study, runs, timed(study, {}, failed={"mixed": outcome}), DEVICE)
    return SimpleNamespace(study=study, runs=runs, comparison=comparison)


def test_what_is_too_slow_is_so_many_times_slower_at_least():
    results = ended("too_slow")
    pair = results.comparison.find("wide", "mixed")
    assert pair.speedup.ratio is None
    assert pair.speedup_at_most == pytest.approx(10 / 120)
    assert pair.failures == {"too_slow": 3}
    assert results.comparison.variant("wide", "mixed").completed.count == 0
    assert advice(results, "wide") == "Stay with float32. mixed is at least 12.0 times slower than float32."


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        ("out_of_memory", {}),
        ("too_slow", {"variant": {"xla": True}}),  # all of its time may be the compiler's
        ("too_slow", {"variant": {"epoch_multiplier": 2}}),  # more epochs take longer whatever the speed
        ("too_slow", {"disturbance": BUSY}),  # other work may be all that made it slow
    ],
)
def test_what_may_have_another_reason_bounds_no_speed(outcome, how):
    assert ended(outcome, **how).comparison.find("wide", "mixed").speedup_at_most is None


def test_a_run_ended_at_another_limit_is_made_again():
    """A larger limit asks for it; a run that completed under the smaller one is as good as ever."""
    records = {key: made.record for key, made in ended("too_slow").runs.items()}
    check_comparable(small_study(max_run_seconds=120.0), records)
    with pytest.raises(InputError, match=r"max_run_seconds 120\.0, the study says 240\.0") as error:
        check_comparable(small_study(max_run_seconds=240.0), records)
    assert "float32" not in str(error.value)


def test_a_pair_on_different_kernels_says_so():
    study = small_study()
    kernels = {"mixed": {"environment": ENVIRONMENT | {"kernels": "oneDNN"}}}
    runs = {
        key: Run(planned_record(key, **kernels.get(key.variant, {})), epoch_records(9.0, 2.0)) for key in study.runs()
    }
    comparison = compare(study, runs, timed(study, {}), DEVICE)
    results = SimpleNamespace(study=study, runs=(), comparison=comparison, environments=[ENVIRONMENT])
    notes = [row.note for row in answers(results, "wide")]
    assert "mixed computed with kernels of oneDNN, float32 with those of Eigen" in notes
