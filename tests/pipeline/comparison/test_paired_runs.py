import math

import pytest
from conftest import changed, epoch_records, planned_record, small_study, timed, write_speeds
from scipy import stats

from pipeline.comparison import paired_runs
from pipeline.comparison.comparing import summarise, table
from pipeline.comparison.finished_runs import Run, read_speeds

# Seconds of an epoch: float32 at B, at 2B, mixed at B, at 2B.
SECONDS = {"float32": 8.0, "float32_2x": 4.0, "mixed": 2.0, "mixed_2x": 0.5}


def compare(study, runs, **how):
    return paired_runs.compare(study, runs, timed(study, SECONDS, **how))


@pytest.fixture
def runs():
    return {
        key: run(planned_record(key), 99.0, SECONDS[key.variant], SECONDS[key.variant]) for key in small_study().runs()
    }


def run(record, *train_seconds) -> Run:
    return Run(record, epoch_records(*train_seconds))


def change(runs, variant, seed=None, benchmark="wide", **changes):
    for key, old in runs.items():
        if key.variant == variant and key.benchmark == benchmark and seed in (None, key.seed):
            record = changed(old.record, **changes)
            runs[key] = Run(record, old.epochs)


def test_every_variant_meets_the_baseline_of_its_benchmark(runs):
    pairs = compare(small_study(), runs).pairs
    assert [(pair.benchmark, pair.candidate) for pair in pairs] == [
        ("wide", "float32_2x"),
        ("wide", "mixed"),
        ("wide", "mixed_2x"),
        ("narrow", "float32_2x"),
    ]
    assert {pair.baseline for pair in pairs} == {"float32"}
    assert {pair.num_seeds for pair in pairs} == {3}


def test_speedup_splits_into_precision_batch_and_interaction(runs):
    """8 s → 0.5 s is 16×: precision alone 4×, batch alone 2×, so 2× come from having both."""
    pair = compare(small_study(), runs).find("wide", "mixed_2x")
    assert pair.speedup.ratio == pytest.approx(16)
    assert pair.precision_effect.ratio == pytest.approx(4)
    assert pair.batch_effect.ratio == pytest.approx(2)
    assert pair.interaction.ratio == pytest.approx(2)


def test_the_interaction_is_that_of_the_measured_twin_wherever_it_stands(runs):
    """`measured_as` takes the first of two that differ in the learning rate alone."""
    values = small_study().model_dump(mode="json")["variants"]
    twin = {"mixed_2x_scaled": values["mixed_2x"] | {"learning_rate_multiplier": 2.0}}
    last, first = (small_study(variants=variants) for variants in (values | twin, twin | values))
    for study in (last, first):
        for key in study.runs():
            if key.variant == "mixed_2x_scaled":
                runs[key] = run(planned_record(key, study), 99.0, 1.0, 1.0)
        assert compare(study, {key: runs[key] for key in study.runs()}).find("wide", "mixed_2x").interaction.ratio


def test_a_variant_with_another_learning_rate_has_the_speed_of_its_twin_and_an_accuracy_of_its_own():
    variants = small_study().model_dump(mode="json")["variants"]
    study = small_study(variants=variants | {"scaled": variants["float32_2x"] | {"learning_rate_multiplier": 2.0}})
    made = {key: run(planned_record(key, study), 99.0, 4.0, 4.0) for key in study.runs()}
    change(made, "scaled", final_test_accuracy=0.95)
    comparison = compare(study, made)
    scaled, twin = comparison.find("wide", "scaled"), comparison.find("wide", "float32_2x")
    assert scaled.speedup == twin.speedup
    assert scaled.speedup.ratio == pytest.approx(2)
    assert scaled.accuracy_difference_pp.mean == pytest.approx(5)
    assert twin.accuracy_difference_pp.mean == 0
    assert scaled.batch_effect is scaled.precision_effect is None


def test_a_single_change_has_nothing_to_split(runs):
    comparison = compare(small_study(), runs)
    assert comparison.find("wide", "mixed").precision_effect is None
    assert comparison.find("wide", "float32_2x").batch_effect is None


def test_the_parts_of_a_speedup_multiply_to_it_also_where_blocks_vary(runs):
    pair = compare(small_study(), runs, spread=0.1).find("wide", "mixed_2x")
    parts = (pair.precision_effect, pair.batch_effect, pair.interaction)
    assert math.prod(part.ratio for part in parts) == pytest.approx(pair.speedup.ratio)
    assert all(part.low < part.ratio < part.high for part in (pair.speedup, *parts))
    assert pair.interaction.high / pair.interaction.low > pair.speedup.high / pair.speedup.low  # four variants, not two


def test_whole_epochs_count_validation_too(runs):
    """8 s and 0.5 s of training, and a second of validation each: 9 s against 1.5 s."""
    pair = compare(small_study(), runs).find("wide", "mixed_2x")
    assert pair.epoch_speedup.ratio == pytest.approx(9 / 1.5)


def test_seeds_do_not_decide_about_speed(runs):
    """However long the epochs of runs took, the speedup is that of the turns."""
    for key, old in runs.items():
        runs[key] = run(old.record, 99.0, 7.0 + key.seed)
    pair = compare(small_study(), runs).find("wide", "mixed")
    assert pair.speedup.ratio == pytest.approx(4)
    comparison = compare(small_study(), runs, spread=0.1)
    assert comparison.turns_of("wide").half_width > 0.05
    assert [turns.num_turns_by_launch for turns in comparison.turns] == [[2, 2, 2], [2, 2, 2]]


def test_accuracy_and_memory(runs):
    for seed, accuracy in enumerate((0.90, 0.91, 0.92)):
        change(runs, "mixed", seed, final_test_accuracy=accuracy - 0.01, peak_memory_bytes=2**19)
        change(runs, "float32", seed, final_test_accuracy=accuracy)
    pair = compare(small_study(), runs).find("wide", "mixed")
    assert pair.accuracy_difference_pp.mean == pytest.approx(-1.0)
    assert pair.memory_ratio.ratio == pytest.approx(0.5)


def test_memory_is_compared_without_runs_that_went_on_after_an_interruption(runs):
    """Their last process may have trained an epoch alone, and took less."""
    change(runs, "mixed", peak_memory_bytes=2**19)
    change(runs, "mixed", 1, peak_memory_bytes=2**10, resumed=True)
    assert compare(small_study(), runs).find("wide", "mixed").memory_ratio.ratio == pytest.approx(0.5)


def test_unknown_memory_is_unknown_and_not_zero(runs):
    change(runs, "mixed", peak_memory_bytes=None)
    assert compare(small_study(), runs).find("wide", "mixed").memory_ratio.ratio is None


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


def test_a_seed_at_which_the_baseline_failed_too_is_no_failure_of_the_candidate(runs):
    for variant in ("mixed", "float32"):
        change(runs, variant, 1, outcome="diverged", final_test_accuracy=None)
    pair = compare(small_study(), runs).find("wide", "mixed")
    assert (pair.failures, pair.baseline_failures) == ({}, {})


@pytest.mark.parametrize("variant", ["mixed", "float32"])
def test_what_is_left_after_failures_is_a_selection_and_never_equivalent(runs, variant):
    study = small_study(seeds=[0, 1, 2, 3])
    for key in study.runs():
        runs[key] = run(planned_record(key, final_test_accuracy=0.9), 99.0, SECONDS[key.variant])
    assert compare(study, runs).find("wide", "mixed").equivalence.outcome == "equivalent"
    change(runs, variant, 3, outcome="diverged", final_test_accuracy=None)
    pair = compare(study, runs).find("wide", "mixed")
    assert pair.equivalence.outcome == "inconclusive"
    assert {**pair.failures, **pair.baseline_failures} == {"diverged": 1}


def test_a_study_of_the_baseline_alone():
    study = small_study(variants={"float32": {"policy": "float32", "batch_multiplier": 1}})
    everything = {key: run(planned_record(key, study), 9.0, 1.0) for key in study.runs()}
    comparison = compare(study, everything)
    assert (comparison.pairs, len(comparison.turns)) == ([], 2)


def test_the_baseline_is_measured_also_where_a_variant_before_it_differs_in_its_learning_rate_alone(runs, tmp_path):
    variants = small_study().model_dump(mode="json")["variants"]
    scaled = {"scaled": variants["float32"] | {"learning_rate_multiplier": 2.0}}
    study = small_study(variants=scaled | variants)
    assert study.measured_as("narrow") == {"scaled": "float32", "float32": "float32", "float32_2x": "float32_2x"}
    for key in study.runs():
        if key.variant == "scaled":
            runs[key] = run(planned_record(key, study), 99.0, 8.0)
    write_speeds(tmp_path, study, SECONDS)
    speeds = {name: read_speeds(study, name, tmp_path / "results/speed") for name in study.benchmarks}
    comparison = paired_runs.compare(study, runs, speeds)
    assert comparison.find("wide", "mixed").speedup.ratio == pytest.approx(4)
    alike = comparison.find("wide", "scaled").speedup
    assert (alike.ratio, alike.low, alike.high) == (1, 1, 1)


def test_variants_measured_as_one_are_as_fast_as_each_other():
    study = small_study()
    speeds = timed(study, SECONDS, spread=0.01)["wide"]
    assert speeds.speedup("mixed", "mixed").ratio == 1
    assert speeds.speedup("float32", "float32").ratio == 1


def test_nothing_is_split_where_more_than_policy_and_batch_differ(runs):
    variants = small_study().model_dump()["variants"]
    for name in ("float32_2x", "mixed_2x"):
        variants[name]["jit_compile"] = True
    study = small_study(variants=variants)
    for variant in ("float32_2x", "mixed_2x"):
        for benchmark in ("wide", "narrow"):
            change(runs, variant, benchmark=benchmark, jit_compile=True)
    pair = compare(study, runs).find("wide", "mixed_2x")
    assert pair.batch_effect is None


def test_a_pair_without_a_completed_seed_is_still_listed(runs):
    change(runs, "mixed", outcome="out_of_memory", final_test_accuracy=None)
    pair = compare(small_study(), runs, failed={"mixed": "out_of_memory"}).find("wide", "mixed")
    assert (pair.num_seeds, pair.speedup.ratio, pair.accuracy_difference_pp.mean) == (0, None, None)
    assert pair.failures == {"out_of_memory": 3}


def test_times_marked_invalid_are_left_out_of_what_is_shown_and_not_of_accuracy(runs):
    change(runs, "mixed", 2, timing_fault="1 other process on its GPU")
    comparison = compare(small_study(), runs)
    pair, statistics = comparison.find("wide", "mixed"), comparison.variant("wide", "mixed")
    assert (statistics.epoch_seconds.low, statistics.timing_faults) == (None, {2: "1 other process on its GPU"})
    assert pair.num_seeds == 3
    assert pair.accuracy_difference_pp.low95 is not None


def test_the_baseline_again_is_no_candidate(runs):
    comparison = compare(small_study(), runs, spread=0.1)
    assert "baseline_again" not in {pair.candidate for pair in comparison.pairs}
    again = comparison.turns_of("wide").baseline_again
    assert again.low < again.ratio < again.high


def test_holm_counts_the_candidates_of_a_benchmark(runs):
    """Alone, each of three candidates would differ at p = 0.0202; over three the smallest must be below 0.0167."""
    differences = (1.0, 1.5, 2.0)
    for variant in ("float32_2x", "mixed", "mixed_2x"):
        for seed, pp in enumerate(differences):
            change(runs, variant, seed, final_test_accuracy=0.5 - pp / 100)
            change(runs, "float32", seed, final_test_accuracy=0.5)
    pairs = [pair for pair in compare(small_study(), runs).pairs if pair.benchmark == "wide"]
    alone = stats.ttest_1samp([-value for value in differences], 0).pvalue
    for pair in pairs:
        assert pair.accuracy_difference_pp.p_value == pytest.approx(alone, abs=1e-9)
        assert pair.accuracy_difference_pp.p_value_holm == pytest.approx(3 * alone, abs=1e-9)
        assert alone < 0.05 < 3 * alone
        assert pair.equivalence.outcome == "inconclusive"


def test_holm_adjusts_what_lies_beyond_the_margin_too(runs):
    """Means of −5 pp, told from zero by each of three candidates; beyond ±1 pp lies the one of the smallest spread."""
    for variant, spread_pp in (("float32_2x", 0.4), ("mixed", 0.6), ("mixed_2x", 0.01)):
        for seed in range(3):
            change(runs, variant, seed, final_test_accuracy=0.45 + spread_pp * (seed - 1) / 100)
            change(runs, "float32", seed, final_test_accuracy=0.5)
    pairs = {pair.candidate: pair for pair in compare(small_study(), runs).pairs if pair.benchmark == "wide"}
    assert {name: pair.equivalence.outcome for name, pair in pairs.items()} == dict.fromkeys(pairs, "different")
    alone = {
        name: 2 * stats.t.sf(4 * math.sqrt(3) / spread, 2) for name, spread in (("float32_2x", 0.4), ("mixed", 0.6))
    }
    found = {name: pair.equivalence.beyond_p_value_holm for name, pair in pairs.items()}
    assert found["float32_2x"] == pytest.approx(2 * alone["float32_2x"], rel=1e-6)
    assert found["mixed"] == pytest.approx(max(alone["mixed"], found["float32_2x"]), rel=1e-6)
    assert found["mixed_2x"] < 0.001


def test_a_row_of_the_table_has_the_three_p_values_of_its_pair(runs):
    for seed, accuracy in enumerate((0.44, 0.45, 0.46)):
        change(runs, "mixed", seed, final_test_accuracy=accuracy)
    comparison = compare(small_study(), runs)
    row = next(row for row in table(comparison) if (row["benchmark"], row["variant"]) == ("wide", "mixed"))
    pair = comparison.find("wide", "mixed")
    assert row["p_value_within"] == pair.equivalence.p_value_holm > 0.99
    assert row["p_value_differs"] == pair.accuracy_difference_pp.p_value_holm < 0.05
    assert row["p_value_beyond"] == pair.equivalence.beyond_p_value_holm


def test_candidates_that_vary_something_else_are_families_apart_and_so_is_a_control(runs):
    variants = small_study().model_dump(mode="json")["variants"]
    variants["custom"] = variants["mixed"] | {"loop": "custom"}
    variants["planted_loss"] = variants["float32"] | {"learning_rate_multiplier": 0.5}
    variants["pure"] = {"policy": "float16", "batch_multiplier": 1}
    variants["pure_2x"] = {"policy": "bfloat16", "batch_multiplier": 2}
    settings = small_study().comparison.model_dump() | {"must_differ": ["planted_loss"]}
    study = small_study(variants=variants, comparison=settings)
    for key in study.runs():
        if key.variant in ("custom", "planted_loss", "pure", "pure_2x"):
            runs[key] = run(planned_record(key, study), 99.0, 2.0)
    pairs = [pair for pair in compare(study, runs).pairs if pair.benchmark == "wide"]
    assert {pair.candidate: pair.equivalence.num_candidates for pair in pairs} == {
        "float32_2x": 3,
        "mixed": 3,
        "mixed_2x": 3,
        "custom": 1,
        "planted_loss": 1,
        "pure": 2,
        "pure_2x": 2,
    }


def test_further_pairs_have_a_baseline_of_their_own(runs):
    settings = small_study().comparison.model_dump() | {
        "further_pairs": [{"baseline": "float32_2x", "candidate": "mixed_2x"}]
    }
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
    assert rows["wide", "mixed_2x"]["accuracy_difference_pp_low"] == pytest.approx(0)


def test_time_to_accuracy_counts_runs_that_never_get_there(runs):
    """Validation accuracy is 0.5 at every epoch: a target of 0.5 is reached at once, one of 0.6 never."""
    settings = small_study().comparison.model_dump()
    reached, missed = (
        compare(small_study(comparison=settings | {"target_accuracy": {"wide": target}}), runs)
        .variant("wide", "mixed")
        .time_to_accuracy
        for target in (0.5, 0.6)
    )
    assert (reached.reached.count, reached.median_seconds) == (3, 99.0)
    assert (missed.reached.count, missed.reached.total, missed.median_seconds) == (0, 3, None)
    assert compare(small_study(), runs).variant("wide", "mixed").time_to_accuracy is None


def test_a_run_whose_times_do_not_count_still_reached_the_target_or_did_not(runs):
    change(runs, "mixed", 0, timing_fault="1 other process on its GPU")
    settings = small_study().comparison.model_dump() | {"target_accuracy": {"wide": 0.5}}
    time = compare(small_study(comparison=settings), runs).variant("wide", "mixed").time_to_accuracy
    assert (time.reached.count, time.reached.total, time.median_seconds) == (3, 3, 99.0)


def test_log_ratios_are_symmetric(runs):
    study = small_study(comparison=small_study().comparison.model_dump() | {"baseline": "float32_2x"})
    forth = compare(small_study(), runs).find("narrow", "float32_2x").speedup.ratio
    back = compare(study, runs).find("narrow", "float32").speedup.ratio
    assert math.log(forth) == pytest.approx(-math.log(back))
