import math

import pytest
from conftest import epoch_records, small_study

from pipeline.comparison import Run, compare, steady_epoch_seconds
from pipeline.errors import InputError

# Seconds of an epoch: float32 at B, at 2B, mixed at B, at 2B.
SECONDS = {"float32": 8.0, "float32_2x": 4.0, "mixed": 2.0, "mixed_2x": 0.5}


@pytest.fixture
def runs(make_record):
    return {
        key: Run(make_record(key), epoch_records(99.0, SECONDS[key.variant], SECONDS[key.variant]))
        for key in small_study().runs()
    }


def change(runs, variant, seed=None, benchmark="wide", **changes):
    for key, run in runs.items():
        if key.variant == variant and key.benchmark == benchmark and seed in (None, key.seed):
            runs[key] = Run(run.record.model_copy(update=changes), run.epochs)


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


def test_a_single_change_has_nothing_to_split(runs):
    comparison = compare(small_study(), runs)
    assert comparison.find("wide", "mixed").precision_effect is None
    assert comparison.find("wide", "float32_2x").batch_effect is None


def test_the_pairing_takes_what_a_seed_shares_out_of_the_interval(runs):
    """Each seed slows both variants alike: the ratio is the same in every block."""
    for key, run in runs.items():
        factor = 1 + key.seed
        runs[key] = Run(run.record, epoch_records(99.0, factor * SECONDS[key.variant]))
    speedup = compare(small_study(), runs).find("wide", "mixed").speedup
    assert (speedup.low, speedup.ratio, speedup.high) == pytest.approx((4, 4, 4))


def test_warm_up_epochs_are_left_out_by_parameter():
    epochs = epoch_records(50.0, 3.0, 1.0, 2.0)
    assert steady_epoch_seconds(epochs, 1) == 2.0
    assert steady_epoch_seconds(epochs, 0) == 2.5
    assert steady_epoch_seconds(epochs, 4) is None


def test_accuracy_and_memory(runs):
    for seed, accuracy in enumerate((0.90, 0.91, 0.92)):
        change(runs, "mixed", seed, final_test_accuracy=accuracy - 0.01, peak_memory_bytes=2**19)
        change(runs, "float32", seed, final_test_accuracy=accuracy)
    pair = compare(small_study(), runs).find("wide", "mixed")
    assert pair.accuracy_difference_pp.mean == pytest.approx(-1.0)
    assert pair.memory_ratio == pytest.approx(0.5)


def test_unknown_memory_is_unknown_and_not_zero(runs):
    change(runs, "mixed", peak_memory_bytes=None)
    assert compare(small_study(), runs).find("wide", "mixed").memory_ratio is None


def test_failed_runs_leave_their_block_out_and_sink_nothing(runs):
    change(runs, "mixed", 1, outcome="diverged", final_test_accuracy=None)
    comparison = compare(small_study(), runs)
    pair = comparison.find("wide", "mixed")
    assert pair.num_seeds == 2
    assert pair.speedup.ratio == pytest.approx(4)
    assert pair.speedup.low is None
    assert comparison.find("wide", "float32_2x").num_seeds == 3


def test_a_pair_without_a_completed_block_is_still_listed(runs):
    change(runs, "mixed", outcome="out_of_memory", final_test_accuracy=None)
    pair = compare(small_study(), runs).find("wide", "mixed")
    assert (pair.num_seeds, pair.speedup.ratio, pair.accuracy_difference_pp.mean) == (0, None, None)


@pytest.mark.parametrize("field", ["initial_weights_sha256", "data_sha256"])
def test_a_block_that_did_not_start_alike_is_refused(runs, field):
    change(runs, "mixed", 1, **{field: "other"})
    with pytest.raises(InputError) as caught:
        compare(small_study(), runs)
    assert "runs/wide/float32/seed-1 and runs/wide/mixed/seed-1 differ in " + field in str(caught.value)
    assert "dvc repro --force --single-item train@1-wide-float32 train@1-wide-mixed" in str(caught.value)


def test_log_ratios_are_symmetric(runs):
    study = small_study(comparison=small_study().comparison.model_dump() | {"baseline": "float32_2x"})
    forth = compare(small_study(), runs).find("narrow", "float32_2x").speedup.ratio
    back = compare(study, runs).find("narrow", "float32").speedup.ratio
    assert math.log(forth) == pytest.approx(-math.log(back))
