"""The advice that a reader sees first."""

from types import SimpleNamespace

import pytest
from conftest import epoch_records, planned_record, predictions, small_study, timed

from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare
from pipeline.report.headlines import advice, headlines


def results(mixed_seconds=1.0, accuracies=(0.9, 0.9, 0.9), spread=0.01, **how) -> SimpleNamespace:
    """The small study, whose mixed variant trains an epoch in so many seconds and float32 in 2."""
    study = small_study()
    runs = {}
    for key in study.runs():
        accuracy = accuracies[key.seed] if key.variant == "mixed" else 0.9
        record = planned_record(key, study, final_test_accuracy=accuracy)
        runs[key] = Run(record, epoch_records(9.0, 2.0), predictions(record))
    seconds = {"float32": 2.0, "mixed": mixed_seconds}
    return SimpleNamespace(study=study, comparison=compare(study, runs, timed(study, seconds, spread=spread, **how)))


@pytest.mark.parametrize(
    ("seconds", "spread", "accuracies", "start", "end"),
    [
        (1.0, 0.01, (0.9, 0.9, 0.9), "Use mixed: 2.0", "same accuracy within ±1 pp."),
        (4.0, 0.01, (0.9, 0.9, 0.9), "Stay with float32: mixed takes 1.9", "within ±1 pp."),
        (2.0, 0.5, (0.9, 0.9, 0.9), "Stay with float32 until more is known: mixed runs at", "pp."),
        (1.0, 0.01, (0.7, 0.71, 0.72), "Faster, but look at the accuracy: mixed:", "[−21.48, −16.52])."),
        (
            1.0,
            0.01,
            (0.9, 0.8, 0.99),
            "Faster, but look",
            "cannot tell whether the accuracy is the same within ±1 pp.",
        ),
    ],
)
def test_advice(seconds, spread, accuracies, start, end):
    sentence = advice(results(seconds, accuracies, spread), "wide")
    assert sentence.startswith(start)
    assert sentence.endswith(end)


def of_policies(**found: tuple[float, tuple[float, ...]]) -> SimpleNamespace:
    """The small study with a variant of each policy, of so many seconds and of these accuracies; float32 takes 2."""
    values = small_study().model_dump(mode="json")["variants"]
    variants = {name: {"policy": name, "batch_multiplier": 1, "benchmarks": ["wide"]} for name in found}
    study = small_study(variants={"float32": values["float32"]} | variants)
    runs = {}
    for key in study.runs():
        accuracy = found[key.variant][1][key.seed] if key.variant in found else 0.9
        record = planned_record(key, study, final_test_accuracy=accuracy)
        runs[key] = Run(record, epoch_records(9.0, 2.0), predictions(record))
    seconds = {"float32": 2.0} | {name: took for name, (took, _) in found.items()}
    return SimpleNamespace(study=study, comparison=compare(study, runs, timed(study, seconds, spread=0.01)))


SAME, WORSE = (0.9, 0.9, 0.9), (0.7, 0.71, 0.72)


@pytest.mark.parametrize(
    ("found", "start"),
    [
        ({"bfloat16": (0.5, SAME), "mixed_float16": (1.0, SAME)}, "Use mixed_float16: "),
        ({"float16": (0.5, SAME), "mixed_float16": (4.0, SAME)}, "Stay with float32: mixed_float16 takes "),
        ({"mixed_float16": (0.5, WORSE), "mixed_bfloat16": (1.0, SAME)}, "Use mixed_bfloat16: "),
        ({"mixed_float16": (0.5, WORSE), "mixed_bfloat16": (4.0, SAME)}, "Faster, but look at the accuracy: mixed_fl"),
        ({"mixed_float16": (1.0, SAME), "mixed_bfloat16": (0.5, SAME)}, "Use mixed_bfloat16: "),
        ({"float16": (0.5, SAME)}, "Nothing to advise"),
    ],
)
def test_a_mixed_policy_is_advised_and_an_accurate_one_before_a_faster_one(found, start):
    assert advice(of_policies(**found), "wide").startswith(start)


def test_an_equivalence_near_chance_is_no_reason_to_use_a_policy():
    found = results(1.0)
    near = [
        each.model_copy(update={"test_accuracy": each.test_accuracy.model_copy(update={"mean": 0.05})})
        for each in found.comparison.variants
    ]
    found.comparison = found.comparison.model_copy(update={"variants": near})
    sentence = advice(found, "wide")
    assert sentence.startswith("Faster, but look at the accuracy: mixed: ")
    assert sentence.endswith("and at an accuracy of 5.0% little can be said about its accuracy.")


def test_the_advice_names_runs_that_diverged():
    found = results(1.0)
    pairs = [
        each.model_copy(update={"failures": {"diverged": 2}}) if each.candidate == "mixed" else each
        for each in found.comparison.pairs
    ]
    found.comparison = found.comparison.model_copy(update={"pairs": pairs})
    assert advice(found, "wide").endswith("; mixed diverged at 2 seeds.")


def test_a_mixed_baseline_has_each_headline_once():
    found = of_policies(mixed_float16=(1.0, SAME), mixed_bfloat16=(1.0, SAME))
    settings = found.study.comparison.model_copy(update={"baseline": "mixed_float16"})
    found.study = found.study.model_copy(update={"comparison": settings})
    told = headlines(found, "wide")
    assert len(told) == len(set(told))


def test_every_mixed_policy_has_a_headline():
    found = of_policies(mixed_float16=(1.0, SAME), bfloat16=(1.0, SAME), mixed_bfloat16=(1.0, SAME))
    assert [line.partition(",")[0] for line in headlines(found, "wide")] == ["mixed_float16", "mixed_bfloat16"]


def test_no_advice_without_times_or_a_candidate():
    failed = results(failed={"mixed": "out_of_memory"})
    assert advice(failed, "wide") == (
        "Nothing to advise: the speed of no mixed policy could be measured beside float32."
    )
    assert advice(results(), "narrow").startswith("Nothing to advise")  # it runs float32 alone


@pytest.mark.parametrize(
    ("accuracies", "in_headline", "in_advice"),
    [
        ((0.7, 0.71, 0.72), "different by more than ±1 pp", "at another accuracy (−19.00 pp [−21.48, −16.52])."),
        ((0.889, 0.890, 0.891), "different; whether by more than ±1 pp is open", "by more than ±1 pp or less."),
    ],
)
def test_a_difference_from_zero_is_not_called_one_beyond_the_margin(accuracies, in_headline, in_advice):
    found = results(accuracies=accuracies)
    assert in_headline in headlines(found, "wide")[0]
    assert advice(found, "wide").endswith(in_advice)


def test_headlines_say_what_is_missing():
    sentence = headlines(results(failed={"mixed": "out_of_memory"}), "wide")[0]
    assert sentence.startswith("mixed, at the same batch: its speed is not known, test accuracy ")
