"""A variant by itself, over its seeds: which times count, when it reached a target, which steps were skipped."""

import pytest
from conftest import DEVICE, changed, epoch_records, planned_record, small_study, timed

from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare, exclusion_reason
from pipeline.records.run_files import epoch_times, steady_epoch_seconds
from pipeline.study.schema import RunKey


def statistics(study, epochs_of, **changes):
    """Those of `mixed` on `wide`, whose runs have these epochs by seed; `changes` are those of seed 0."""
    runs = {key: Run(planned_record(key, study), epochs_of(key.seed)) for key in study.runs()}
    first = RunKey("wide", "mixed", 0)
    runs[first] = Run(changed(runs[first].record, **changes), runs[first].epochs)
    return compare(study, runs, timed(study, {}), DEVICE).variant("wide", "mixed")


def test_warm_up_epochs_are_left_out_by_parameter():
    epochs = epoch_records(50.0, 3.0, 1.0, 2.0)
    assert [steady_epoch_seconds(epochs, number) for number in (1, 0, 4)] == [2.0, 2.5, None]
    assert [epoch_times(epochs, number)["excluded_epochs"] for number in (2, 0)] == [[1, 2], []]


def test_times_are_left_out_for_another_process_or_a_busy_machine(make_record):
    record = make_record(RunKey("wide", "mixed", 0))
    busy, unknown = (
        record.model_copy(update={"disturbance": record.disturbance.model_copy(update={"other_cpu_share": share})})
        for share in (0.4, None)
    )
    assert (
        exclusion_reason(record, 0.25, DEVICE)
        is exclusion_reason(unknown, 0.25, DEVICE)
        is exclusion_reason(busy, 0.5, DEVICE)
        is None
    )
    assert exclusion_reason(busy, 0.25, DEVICE) == "other work took 40 % of the CPU time"
    assert exclusion_reason(changed(busy, timing_fault=""), 0.25, DEVICE) == "other work took 40 % of the CPU time"
    assert exclusion_reason(record, 0.25, "V100") == "another device than that of the speeds"
    shared = changed(busy, timing_fault="1 other process on its GPU")
    assert exclusion_reason(shared, 0.5, DEVICE) == "1 other process on its GPU"


def test_times_that_do_not_count_are_left_out_of_what_is_shown_and_not_of_accuracy():
    found = statistics(small_study(), lambda _: epoch_records(9.0, 1.0), timing_fault="1 other process on its GPU")
    assert (found.epoch_seconds.low, found.timing_faults) == (None, {0: "1 other process on its GPU"})
    assert (found.completed.count, found.test_accuracy.low) == (3, pytest.approx(0.9))


@pytest.mark.parametrize(("policy", "is_dynamic"), [("mixed_float16", True), ("mixed_bfloat16", False)])
def test_steps_skipped_after_the_first_epoch_are_counted_where_the_loss_scale_is_dynamic(policy, is_dynamic):
    """Skipped steps count from the start of a run: 3 by the end of the first of two epochs, 4 by that of the second."""

    def epochs_of(_):
        found = zip(epoch_records(9.0, 1.0), (3, 4), strict=True)
        return [epoch.model_copy(update={"skipped_steps": skipped}) for epoch, skipped in found]

    variants = {name: {"policy": of, "batch_multiplier": 1} for name, of in (("float32", "float32"), ("mixed", policy))}
    found = statistics(small_study(variants=variants), epochs_of).late_skips
    assert (found and (found.count, found.total)) == ((3, 9) if is_dynamic else None)  # of three steps an epoch
