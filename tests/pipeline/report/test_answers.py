"""The answer that a reader sees first: a sentence, and the rows of a table."""

from types import SimpleNamespace

import pytest
from comparisons import altered
from conftest import DEVICE, ENVIRONMENT, epoch_records, planned_record, small_study, timed

from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare
from pipeline.comparison.schema import ELSEWHERE
from pipeline.report.answers import advice, answers

SAME, WORSE, APART = (0.9, 0.9, 0.9), (0.7, 0.71, 0.72), (0.9, 0.8, 0.99)
NOT_ANSWERED = ". Whether it is as accurate, within ±1 pp, is not answered by this study (3 seeds)."


def results(study=None, spread=0.01, failed=None, **found) -> SimpleNamespace:
    """The small study, by variant the seconds of an epoch and the accuracies by seed; all others take 2 and reach 0.9.

    Without any, `mixed` takes one second.
    """
    study, found = study or small_study(), found or {"mixed": (1.0, SAME)}
    runs = {}
    for key in study.runs():
        accuracy = found[key.variant][1][key.seed] if key.variant in found else 0.9
        runs[key] = Run(planned_record(key, study, final_test_accuracy=accuracy), epoch_records(9.0, 2.0))
    seconds = {"float32": 2.0} | {name: took for name, (took, _) in found.items()}
    comparison = compare(study, runs, timed(study, seconds, spread=spread, failed=failed or {}), DEVICE)
    return SimpleNamespace(study=study, runs=[], comparison=comparison, environments=[ENVIRONMENT])


def of_policies(**found) -> SimpleNamespace:
    """The small study with a variant of each policy, beside float32."""
    variants = {name: {"policy": name, "batch_multiplier": 1, "benchmarks": ["wide"]} for name in found}
    return results(small_study(variants={"float32": {"policy": "float32", "batch_multiplier": 1}} | variants), **found)


def with_settings(found, **settings):
    """The same results, of a study that compares otherwise."""
    comparison = found.study.comparison.model_copy(update=settings)
    found.study = found.study.model_copy(update={"comparison": comparison})
    return found


@pytest.mark.parametrize(
    ("seconds", "spread", "accuracies", "start", "end"),
    [
        (1.0, 0.01, SAME, "Use mixed: it trains at 2.0", "same accuracy within ±1 pp."),
        (4.0, 0.01, SAME, "Stay with float32. mixed trains at 0.5", "within ±1 pp."),
        (2.0, 0.5, SAME, "Stay with float32 until more is known. mixed trains at", "pp."),
        (1.0, 0.01, WORSE, "Weigh mixed: ", "at another accuracy (−19.00 pp [−21.48, −16.52])."),
        (1.0, 0.01, (0.889, 0.890, 0.891), "Weigh mixed: ", "by more than ±1 pp or less."),  # from zero, not beyond it
        (1.0, 0.01, APART, "Try mixed: ", NOT_ANSWERED),
    ],
)
def test_the_advice_says_how_fast_and_how_accurate(seconds, spread, accuracies, start, end):
    sentence = advice(results(spread=spread, mixed=(seconds, accuracies)), "wide")
    assert sentence.startswith(start)
    assert sentence.endswith(end)


@pytest.mark.parametrize(
    ("found", "start"),
    [
        ({"bfloat16": (0.5, SAME), "mixed_float16": (1.0, SAME)}, "Use mixed_float16: "),
        ({"float16": (0.5, SAME), "mixed_float16": (4.0, SAME)}, "Stay with float32. mixed_float16 trains at "),
        ({"mixed_float16": (0.5, WORSE), "mixed_bfloat16": (1.0, SAME)}, "Use mixed_bfloat16: "),
        ({"mixed_float16": (0.5, WORSE), "mixed_bfloat16": (4.0, SAME)}, "Weigh mixed_float16: "),
        ({"mixed_float16": (1.0, SAME), "mixed_bfloat16": (0.5, SAME)}, "Use mixed_bfloat16: "),
        ({"float16": (0.5, SAME)}, "Nothing to advise"),
    ],
)
def test_a_mixed_policy_is_advised_and_an_accurate_one_before_a_faster_one(found, start):
    assert advice(of_policies(**found), "wide").startswith(start)


def test_no_advice_without_times_or_a_candidate():
    failed = results(failed={"mixed": "out_of_memory"})
    nothing = "Nothing to advise: the speed of no mixed policy could be measured beside float32."
    assert advice(failed, "wide") == nothing
    assert advice(results(), "narrow") == nothing  # it runs float32 alone
    mixed = next(row for row in answers(failed, "wide") if row.name == "mixed")
    assert (mixed.speed, mixed.found.turn_epoch_seconds) == ("not known", None)


def test_an_equivalence_near_chance_is_no_reason_to_use_a_policy():
    low = (0.05, 0.05, 0.05)
    sentence = advice(results(float32=(2.0, low), mixed=(1.0, low)), "wide")
    assert sentence.startswith("Try mixed: ")
    assert sentence.endswith(". Its accuracy is not answered by this study: float32 itself reaches only 5.0 %.")


def test_the_advice_names_runs_that_diverged():
    found = results()
    pairs = [pair.model_copy(update={"failures": {"diverged": 2}}) for pair in found.comparison.pairs]
    found.comparison = found.comparison.model_copy(update={"pairs": pairs})
    assert advice(found, "wide").endswith("; mixed diverged at 2 seeds.")


@pytest.mark.parametrize(
    ("accuracies", "told"),
    [
        (SAME, " float8 trains at the same accuracy within ±1 pp."),
        (WORSE, " float8 trains at another accuracy (−19.00 pp [−21.48, −16.52])."),
        (APART, f" float8 trains{NOT_ANSWERED}"),
    ],
)
def test_8_bits_have_an_accuracy_and_no_speed_where_they_are_emulated(accuracies, told):
    found = of_policies(mixed_bfloat16=(1.0, SAME), float8=(1.0, accuracies))
    assert advice(found, "wide").startswith("Use mixed_bfloat16: ")
    assert advice(found, "wide").endswith(told)
    row = answers(found, "wide")[-1]
    assert (row.name, row.is_first, row.speed) == ("float8", True, "–")
    assert row.note == "8 bits are emulated here, so no time is given"


@pytest.mark.parametrize(("capability", "is_emulated"), [("8.0", True), ("8.9", False), ("9.0", False)])
def test_some_gpus_emulate_8_bits_too(capability, is_emulated):
    found = of_policies(float8=(1.0, SAME))
    gpu = {"kind": "gpu", "name": "NVIDIA A100 or H100", "compute_capability": capability}
    found.environments = [ENVIRONMENT | {"accelerators": [gpu]}]
    assert answers(found, "wide")[-1].is_emulated == is_emulated


def test_rows_begin_with_the_baseline_and_go_from_policy_to_policy_by_batch():
    rows = answers(results(), "wide")
    names = ["float32", "float32, batch doubled", "mixed_bfloat16", "mixed_bfloat16, batch doubled"]
    assert [(row.words, row.is_first) for row in rows] == [(name, True) for name in names]
    assert (rows[0].difference, rows[0].speed, rows[0].pair) == ("baseline", "–", None)
    further = of_policies(mixed_float16=(1.0, SAME), bfloat16=(1.0, SAME), mixed_bfloat16=(1.0, SAME))
    assert [row.name for row in answers(further, "wide") if not row.is_first] == ["bfloat16"]  # variables in 16 bits
    mixed = with_settings(further, baseline="mixed_float16")
    assert [row.name for row in answers(mixed, "wide")] == ["mixed_float16", "float32", "bfloat16", "mixed_bfloat16"]


def test_epochs_agree_with_speedups():
    baseline, *others = answers(results(), "wide")
    assert baseline.found.turn_epoch_seconds == pytest.approx(2.0, rel=0.05)
    for row in others:
        ratio = baseline.found.turn_epoch_seconds / row.found.turn_epoch_seconds
        assert ratio == pytest.approx(row.pair.speedup.ratio)


def test_the_times_of_a_variant_that_is_not_measured_apart_are_dashes_and_it_says_whose_they_are():
    doubled = {"policy": "float32", "batch_multiplier": 2}
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}, "float32_2x": doubled}
    variants |= {"slow": variants["float32"] | {"learning_rate_multiplier": 0.5}}
    variants |= {"longer": doubled | {"epoch_multiplier": 2}}
    rows = {row.name: row for row in answers(results(small_study(variants=variants)), "wide")}
    assert "–" not in (rows["float32_2x"].cells["epoch"], rows["float32_2x"].cells["speed"])
    for name, timed_as in (("slow", "float32"), ("longer", "float32 (batch doubled)")):
        assert (rows[name].cells["epoch"], rows[name].cells["speed"]) == ("–", "–")
        assert rows[name].note == f"timed as {timed_as}"


def test_the_memory_of_a_variant_is_that_of_its_turns():
    (mixed,) = [row for row in answers(results(), "wide") if row.name == "mixed"]
    assert (mixed.cells["memory"], mixed.note) == ("1 MiB", "")


def test_without_turns_it_is_that_of_the_largest_run_in_one_process_on_the_device_of_the_speeds():
    found = results()
    found.comparison = altered(found.comparison, variants={"turn_peak_memory_bytes": None})
    found.runs = [
        {
            "benchmark": "wide",
            "variant": "mixed",
            "seed": seed,
            "outcome": outcome,
            "peak_memory_bytes": size,
            "resumed": resumed,
        }
        for seed, size, outcome, resumed in (
            (0, 2**20, "completed", False),
            (1, 2**10, "completed", True),
            (2, 2**30, "diverged", False),
            (3, 3 * 2**20, "completed", False),
            (4, 2**30, "completed", False),
        )
    ]
    (mixed,) = [row for row in answers(found, "wide") if row.name == "mixed"]
    mixed.found.timing_faults[4] = ELSEWHERE
    assert mixed.cells["memory"] == "3 MiB"
    assert mixed.note == "memory is that of a whole run, which may have compiled"
