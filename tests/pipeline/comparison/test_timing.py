from conftest import changed, epoch_records

from pipeline.comparison.paired_runs import exclusion_reason, seconds_to_accuracy, time_to_accuracy
from pipeline.records.writing import epoch_times, steady_epoch_seconds
from pipeline.study.schema import RunKey


def test_warm_up_epochs_are_left_out_by_parameter():
    epochs = epoch_records(50.0, 3.0, 1.0, 2.0)
    assert steady_epoch_seconds(epochs, 1) == 2.0
    assert steady_epoch_seconds(epochs, 0) == 2.5
    assert steady_epoch_seconds(epochs, 4) is None
    assert [epoch_times(epochs, number)["excluded_epochs"] for number in (2, 0)] == [[1, 2], []]


def test_time_to_accuracy_counts_the_first_epoch_and_stops_at_the_target():
    epochs = [
        epoch.model_copy(update={"validation_accuracy": accuracy})
        for epoch, accuracy in zip(epoch_records(5.0, 1.0, 1.0, 1.0), (0.1, 0.6, 0.5, 0.7), strict=True)
    ]
    assert seconds_to_accuracy(epochs, 0.1) == 5.0
    assert seconds_to_accuracy(epochs, 0.6) == 6.0
    assert seconds_to_accuracy(epochs, 0.65) == 8.0
    assert seconds_to_accuracy(epochs, 0.71) is None


def test_the_median_time_to_accuracy_is_over_runs_whose_times_count():
    reaches = [epoch_records(seconds)[0].model_copy(update={"validation_accuracy": 0.9}) for seconds in (1.0, 2.0, 3.0)]
    never = epoch_records(4.0)[0].model_copy(update={"validation_accuracy": 0.1})
    epochs = {seed: [epoch] for seed, epoch in enumerate([*reaches, never])}
    assert time_to_accuracy(epochs, (), 0.8).median_seconds == 2.5
    found = time_to_accuracy(epochs, (1, 2, 3), 0.8)
    assert (found.median_seconds, found.reached.count, found.reached.total) == (1.0, 3, 4)
    assert time_to_accuracy(epochs, (0, 1), 0.8).median_seconds is None  # one of two never does
    assert time_to_accuracy(epochs, (0, 1, 2, 3), 0.8).median_seconds is None


def test_times_are_left_out_for_another_process_or_a_busy_machine(make_record):
    quiet = make_record(RunKey("wide", "mixed", 0))
    busy = quiet.model_copy(update={"disturbance": quiet.disturbance.model_copy(update={"other_cpu_share": 0.4})})
    unknown = quiet.model_copy(update={"disturbance": quiet.disturbance.model_copy(update={"other_cpu_share": None})})
    assert exclusion_reason(quiet, 0.25) is None
    assert exclusion_reason(unknown, 0.25) is None
    assert exclusion_reason(changed(busy, timing_fault=""), 0.25) == exclusion_reason(busy, 0.25)
    assert exclusion_reason(busy, 0.25) == "other work took 40 % of the CPU time"
    assert exclusion_reason(busy, 0.5) is None
    shared = changed(busy, timing_fault="1 other process on its GPU")
    assert exclusion_reason(shared, 0.5) == "1 other process on its GPU"
