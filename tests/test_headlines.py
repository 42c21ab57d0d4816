"""The advice that a reader sees first."""

from types import SimpleNamespace

import pytest
from conftest import correct, epoch_records, planned_record, small_study

from pipeline.comparison.blocks import Run, compare
from pipeline.report.headlines import advice, headlines


def results(mixed_seconds=(1.0, 1.0, 1.0), accuracies=(0.9, 0.9, 0.9), **changes) -> SimpleNamespace:
    """The small study with these epoch times of the mixed variant, where float32 takes 2 s at accuracy 0.9."""
    study = small_study()
    runs = {}
    for key in study.runs():
        seconds, accuracy, extra = 2.0, 0.9, {}
        if key.variant == "mixed":
            seconds, accuracy, extra = mixed_seconds[key.seed], accuracies[key.seed], changes
        record = planned_record(key, study, final_test_accuracy=accuracy, **extra)
        runs[key] = Run(record, epoch_records(9.0, seconds), correct(record))
    return SimpleNamespace(study=study, comparison=compare(study, runs))


@pytest.mark.parametrize(
    ("seconds", "accuracies", "start", "end"),
    [
        ((1.0, 1.01, 0.99), (0.9, 0.9, 0.9), "Use mixed: 2.00× the speed of float32 [", "same accuracy within ±1 pp."),
        ((4.0, 4.1, 3.9), (0.9, 0.9, 0.9), "Stay with float32: mixed takes 2.00× the time [", "within ±1 pp."),
        ((1.0, 2.0, 4.0), (0.9, 0.9, 0.9), "Stay with float32 until more is known: mixed runs at 1.00× its", "pp."),
        ((1.0, 1.01, 0.99), (0.7, 0.71, 0.72), "Faster, but look at the accuracy: mixed:", "[−21.48, −16.52])."),
        (
            (1.0, 1.01, 0.99),
            (0.9, 0.8, 0.99),
            "Faster, but look",
            "cannot tell whether the accuracy is the same within ±1 pp.",
        ),
    ],
)
def test_advice(seconds, accuracies, start, end):
    sentence = advice(results(seconds, accuracies), "wide")
    assert sentence.startswith(start)
    assert sentence.endswith(end)


def test_no_advice_without_times_or_a_candidate():
    without_times = advice(results(timing_fault="1 other process on its GPU"), "wide")
    assert without_times == "Nothing to advise: no 16-bit policy and float32 share three seeds whose times count."
    assert advice(results(), "narrow").startswith("Nothing to advise")  # it runs float32 alone


def test_headlines_say_what_is_missing():
    sentence = headlines(results(timing_fault="1 other process on its GPU"), "wide")[0]
    assert sentence.startswith("mixed, at the same batch: no times that count, test accuracy ")
