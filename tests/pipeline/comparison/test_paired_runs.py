"""Runs to pairs: which variants meet, what their seeds say of accuracy and memory, and turns of speed."""

import math

import pytest
from conftest import DEVICE, changed, epoch_records, planned_record, small_study, timed
from scipy import stats

from pipeline.comparison import paired_runs
from pipeline.comparison.comparing import summarise, table
from pipeline.comparison.finished_runs import Run

# Seconds of an epoch: float32 at B, at 2B, mixed at B, at 2B.
SECONDS = {"float32": 8.0, "float32_2x": 4.0, "mixed": 2.0, "mixed_2x": 0.5}
VARIANTS = small_study().model_dump(mode="json")["variants"]
SETTINGS = small_study().comparison.model_dump()


def finished(study) -> dict:
    """A completed run for each of the study."""
    seconds = {key: SECONDS.get(key.variant, 1.0) for key in study.runs()}
    return {key: Run(planned_record(key, study), epoch_records(99.0, s, s)) for key, s in seconds.items()}


@pytest.fixture
def runs():
    return finished(small_study())


def compare(study, runs=None, **how):
    return paired_runs.compare(study, runs or finished(study), timed(study, SECONDS, **how), DEVICE)


def change(runs, variant, seed=None, benchmark="wide", **changes):
    for key, (record, epochs) in runs.items():
        if key.variant == variant and key.benchmark == benchmark and seed in (None, key.seed):
            runs[key] = Run(changed(record, **changes), epochs)


def test_every_variant_meets_the_baseline_of_its_benchmark(runs):
    comparison = compare(small_study(), runs, spread=0.1)
    assert [(pair.benchmark, pair.baseline, pair.candidate, pair.num_seeds) for pair in comparison.pairs] == [
        ("wide", "float32", "float32_2x", 3),
        ("wide", "float32", "mixed", 3),
        ("wide", "float32", "mixed_2x", 3),
        ("narrow", "float32", "float32_2x", 3),
    ]
    again = comparison.turns_of("wide").baseline_again  # which is no candidate
    assert again.low < again.ratio < again.high
    alone = compare(small_study(variants={"float32": VARIANTS["float32"]}))
    assert (alone.pairs, len(alone.turns)) == ([], 2)


def test_further_pairs_have_a_baseline_of_their_own(runs):
    settings = SETTINGS | {"further_pairs": [{"baseline": "float32_2x", "candidate": "mixed_2x"}]}
    comparison = compare(small_study(comparison=settings), runs)
    pair = comparison.find("wide", "mixed_2x", "float32_2x")
    assert pair.speedup.ratio == pytest.approx(8)  # 4 s against 0.5 s
    assert pair.equivalence.num_candidates == 1
    assert comparison.find("wide", "mixed_2x").baseline == "float32"
    assert comparison.find("narrow", "mixed_2x", "float32_2x") is None
    assert summarise(small_study(), comparison)["speedup"]["wide"] == 4
    rows = {(row["benchmark"], row["variant"]): row for row in table(comparison)}
    assert rows["wide", "mixed_2x_against_float32_2x"]["speedup"] == pair.speedup.ratio
    assert rows["wide", "mixed_2x"]["speedup"] == pytest.approx(16)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_variant_with_another_learning_rate_has_the_speed_of_its_twin_and_an_accuracy_of_its_own(is_first):
    """One process measures both, wherever they stand."""
    twins = {f"{name}_scaled": VARIANTS[name] | {"learning_rate_multiplier": 2.0} for name in ("float32", "mixed_2x")}
    study = small_study(variants=twins | VARIANTS if is_first else VARIANTS | twins)
    runs = finished(study)
    change(runs, "mixed_2x_scaled", final_test_accuracy=0.95)
    comparison = compare(study, runs, spread=0.1)
    scaled, twin = comparison.find("wide", "mixed_2x_scaled"), comparison.find("wide", "mixed_2x")
    assert scaled.speedup == twin.speedup
    assert (scaled.accuracy_difference_pp.mean, twin.accuracy_difference_pp.mean) == (pytest.approx(5), 0)
    alike = comparison.find("wide", "float32_scaled").speedup
    assert (alike.ratio, alike.low, alike.high) == (1, 1, 1)


def test_turns_decide_about_speed_and_seeds_do_not(runs):
    """However long the epochs of runs took. 8 s and 0.5 s of training are 9 s and 1.5 s with a second's validation."""
    for key, (record, _) in runs.items():
        runs[key] = Run(record, epoch_records(99.0, 7.0 + key.seed))
    comparison = compare(small_study(), runs)
    assert comparison.find("wide", "mixed").speedup.ratio == pytest.approx(4)
    assert comparison.find("wide", "mixed_2x").epoch_speedup.ratio == pytest.approx(9 / 1.5)
    assert [turns.num_turns_by_launch for turns in comparison.turns] == [[2, 2, 2], [2, 2, 2]]


def test_accuracies_are_paired_by_seed(runs):
    for seed, accuracy in enumerate((0.90, 0.91, 0.92)):
        change(runs, "mixed", seed, final_test_accuracy=accuracy - 0.01)
        change(runs, "float32", seed, final_test_accuracy=accuracy)
    assert compare(small_study(), runs).find("wide", "mixed").accuracy_difference_pp.mean == pytest.approx(-1.0)


def test_memory_is_that_of_turns_after_their_warm_up(runs):
    """Whatever the runs took themselves: some of them compiled."""
    change(runs, "mixed", 1, peak_memory_bytes=2**30)
    found = compare(small_study(), runs, peaks={"mixed": 2**19})
    memory = found.find("wide", "mixed").memory_ratio
    assert (memory.ratio, memory.low, memory.high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.variant("wide", "mixed").turn_peak_memory_bytes == pytest.approx(2**19)
    unknown = compare(small_study(), runs, peaks={"mixed": None})
    assert unknown.find("wide", "mixed").memory_ratio.ratio is None
    assert unknown.variant("wide", "mixed").turn_peak_memory_bytes is None


def test_failed_runs_sink_nothing_and_are_counted(runs):
    change(runs, "mixed", 1, outcome="diverged", final_test_accuracy=None)
    comparison = compare(small_study(), runs)
    pair = comparison.find("wide", "mixed")
    assert (pair.num_seeds, pair.failures) == (2, {"diverged": 1})
    assert pair.speedup.ratio == pytest.approx(4)
    assert comparison.find("wide", "float32_2x").num_seeds == 3
    completed = comparison.variant("wide", "mixed").completed
    assert (completed.count, completed.total) == (2, 3)
    assert (completed.low, completed.high) == pytest.approx((0.0943, 0.9916), abs=1e-4)  # Clopper–Pearson tables
    change(runs, "float32", 1, outcome="diverged", final_test_accuracy=None)  # then it is no failure of the candidate
    pair = compare(small_study(), runs).find("wide", "mixed")
    assert (pair.failures, pair.baseline_failures) == ({}, {})


@pytest.mark.parametrize("variant", ["mixed", "float32"])
def test_what_is_left_after_failures_is_a_selection_and_never_equivalent(variant):
    study = small_study(seeds=[0, 1, 2, 3])
    runs = finished(study)
    assert compare(study, runs).find("wide", "mixed").equivalence.outcome == "equivalent"
    change(runs, variant, 3, outcome="diverged", final_test_accuracy=None)
    pair = compare(study, runs).find("wide", "mixed")
    assert pair.equivalence.outcome == "inconclusive"
    assert {**pair.failures, **pair.baseline_failures} == {"diverged": 1}


def test_a_pair_without_a_completed_seed_is_still_listed(runs):
    change(runs, "mixed", outcome="out_of_memory", final_test_accuracy=None)
    pair = compare(small_study(), runs, failed={"mixed": "out_of_memory"}).find("wide", "mixed")
    assert (pair.num_seeds, pair.speedup.ratio, pair.accuracy_difference_pp.mean) == (0, None, None)
    assert pair.failures == {"out_of_memory": 3}


def test_holm_counts_the_candidates_of_a_benchmark(runs):
    """Alone, each of three candidates would differ at p = 0.0202; over three the smallest must be below 0.0167."""
    differences = (1.0, 1.5, 2.0)
    for variant in ("float32_2x", "mixed", "mixed_2x"):
        for seed, pp in enumerate(differences):
            change(runs, variant, seed, final_test_accuracy=0.9 - pp / 100)
    comparison = compare(small_study(), runs)
    alone = stats.ttest_1samp([-value for value in differences], 0).pvalue
    assert alone < 0.05 < 3 * alone
    for pair in comparison.pairs[:3]:
        assert pair.accuracy_difference_pp.p_value == pytest.approx(alone, abs=1e-9)
        assert pair.accuracy_difference_pp.p_value_holm == pytest.approx(3 * alone, abs=1e-9)
        assert pair.equivalence.outcome == "inconclusive"
    row, pair = table(comparison)[1], comparison.pairs[1]
    assert (row["p_value_within"], row["p_value_differs"], row["p_value_beyond"]) == (
        pair.equivalence.p_value_holm,
        pair.accuracy_difference_pp.p_value_holm,
        pair.equivalence.beyond_p_value_holm,
    )


def test_holm_adjusts_what_lies_beyond_the_margin_too(runs):
    """Means of −5 pp, told from zero by each of three candidates; beyond ±1 pp lies the one of the smallest spread."""
    for variant, spread_pp in (("float32_2x", 0.4), ("mixed", 0.6), ("mixed_2x", 0.01)):
        for seed in range(3):
            change(runs, variant, seed, final_test_accuracy=0.85 + spread_pp * (seed - 1) / 100)
    tests = {pair.candidate: pair.equivalence for pair in compare(small_study(), runs).pairs[:3]}
    assert {test.outcome for test in tests.values()} == {"different"}
    alone = {spread: 2 * stats.t.sf(4 * math.sqrt(3) / spread, 2) for spread in (0.4, 0.6)}
    assert tests["float32_2x"].beyond_p_value_holm == pytest.approx(2 * alone[0.4], rel=1e-6)
    assert tests["mixed"].beyond_p_value_holm == pytest.approx(max(alone[0.6], 2 * alone[0.4]), rel=1e-6)
    assert tests["mixed_2x"].beyond_p_value_holm < 0.001


def test_candidates_that_vary_something_else_are_families_apart_and_so_is_a_control():
    others = {
        "custom": VARIANTS["mixed"] | {"loop": "custom"},
        "planted_loss": VARIANTS["float32"] | {"learning_rate_multiplier": 0.5},
        "pure": {"policy": "float16", "batch_multiplier": 1},
        "pure_2x": {"policy": "bfloat16", "batch_multiplier": 2},
    }
    study = small_study(variants=VARIANTS | others, comparison=SETTINGS | {"must_differ": ["planted_loss"]})
    pairs = [pair for pair in compare(study).pairs if pair.benchmark == "wide"]
    assert {pair.candidate: pair.equivalence.num_candidates for pair in pairs} == {
        "float32_2x": 3,
        "mixed": 3,
        "mixed_2x": 3,
        "custom": 1,
        "planted_loss": 1,
        "pure": 2,
        "pure_2x": 2,
    }
