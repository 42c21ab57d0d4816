"""How alike runs predict, worked by hand."""

import math

import numpy as np
import pytest
from conftest import epoch_records, planned_record, small_study, timed

from pipeline.comparison.agreement import agreements, differing
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare
from pipeline.statistics.intervals import ratio as mean_ratio
from pipeline.statistics.seeds import ratio_to_seeds

LABELS = np.array([0, 0, 0, 2])
# Three seeds of four examples. Seeds 0 and 1 differ in one example, 0 and 2 in two, 1 and 2 in three.
THEIRS = np.array([[0, 0, 1, 2], [0, 0, 2, 2], [0, 1, 1, 0]])
# One example, none and two are other than the baseline's at the same seed.
OURS = np.array([[0, 0, 1, 0], [0, 0, 2, 2], [1, 1, 1, 2]])


def test_predictions_differ_between_variants_and_between_seeds():
    found = differing(THEIRS, OURS, LABELS)
    assert found["between_variants"] == [0.25, 0.0, 0.5]
    assert found["between_seeds"] == [0.25, 0.5, 0.75]
    assert found["ratio"].ratio == pytest.approx(0.25 / 0.5)
    assert found["classes"] == [0, 2]  # the test set has no other
    # Of class 0, three examples at three seeds: one of nine differs. Of class 2, two of three.
    assert found["class_between_variants"] == pytest.approx([1 / 9, 2 / 3])
    # Of class 0 between seeds: 1, 1 and 2 of three examples. Of class 2: none, one and one of one.
    assert found["class_between_seeds"] == pytest.approx([4 / 9, 2 / 3])


def test_the_interval_leaves_each_seed_out():
    """Without seed 0: 0.3 over 0.6; without 1: 0.2 over 0.5; without 2: 0.1 over 0.4."""
    of_variants = np.array([0.0, 0.2, 0.4])
    of_seeds = np.array([[0, 0.4, 0.5], [0.4, 0, 0.6], [0.5, 0.6, 0]])
    found = ratio_to_seeds(of_variants, of_seeds)
    whole = math.log(0.2 / 0.5)
    pseudo_values = [3 * whole - 2 * math.log(left) for left in (0.5, 0.4, 0.25)]
    expected = mean_ratio(pseudo_values)
    assert found.ratio == pytest.approx(0.4)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.new_low, found.new_high) == (None, None)


def test_where_seeds_agree_as_far_as_one_another_only_variants_spread_the_interval():
    """Pseudo-values of a mean are the values themselves: with tiny relative spread the t-interval comes out."""
    of_variants = np.array([0.0999, 0.1, 0.1001])
    found = ratio_to_seeds(of_variants, 0.2 * (1 - np.eye(3)))
    half = 4.302653 * 0.0001 / math.sqrt(3)  # t(.975, 2) × s / √n
    assert (found.low, found.high) == pytest.approx(((0.1 - half) / 0.2, (0.1 + half) / 0.2), rel=1e-5)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ([[0, 1], [0, 1], [0, 1]], [[0, 0], [0, 1], [0, 1]], (None, None, None)),  # seeds differ in nothing
        ([[0, 1], [0, 0], [1, 1]], [[0, 1], [0, 0], [1, 1]], (0.0, None, None)),  # variants differ in nothing
        ([[0, 1], [0, 0]], [[1, 1], [0, 0]], (0.5, None, None)),  # two seeds give no interval
    ],
)
def test_a_ratio_that_has_no_interval(theirs, ours, expected):
    found = differing(np.array(theirs), np.array(ours), np.array([0, 1]))["ratio"]
    assert (found.ratio, found.low, found.high) == expected


def test_only_seeds_that_both_completed_count():
    study = small_study()
    labels = {name: np.zeros(3, np.int64) for name in study.benchmarks}
    runs = {}
    for key in study.runs():
        predicted = np.array([0, 0, key.seed])
        if (key.variant, key.seed) == ("mixed", 1) or (key.variant == "mixed_2x" and key.seed):
            predicted = np.empty(0, np.int64)
        runs[key] = Run(planned_record(key), epoch_records(9.0, 2.0), predicted)
    pairs = compare(study, runs, timed(study, {})).pairs
    found = {(each.benchmark, each.candidate): each for each in agreements(study, pairs, runs, labels)}
    assert found.keys() == {("wide", "float32_2x"), ("wide", "mixed"), ("narrow", "float32_2x")}
    assert found["wide", "mixed"].seeds == [0, 2]
    assert found["wide", "mixed"].between_seeds == pytest.approx([1 / 3])
    assert found["wide", "float32_2x"].between_variants == [0.0, 0.0, 0.0]


def test_a_pair_has_the_seeds_of_the_one_that_is_run_at_fewer():
    study = small_study(num_seeds_by_variant={"wide": {"mixed": 2}})
    labels = {name: np.zeros(3, np.int64) for name in study.benchmarks}
    runs = {key: Run(planned_record(key), epoch_records(9.0, 2.0), np.array([0, 0, key.seed])) for key in study.runs()}
    found = compare(study, runs, timed(study, {}))
    num_seeds = {pair.candidate: pair.num_seeds for pair in found.pairs if pair.benchmark == "wide"}
    assert num_seeds == {"float32_2x": 3, "mixed": 2, "mixed_2x": 3}
    assert not any(pair.failures or pair.baseline_failures for pair in found.pairs)
    assert found.variant("wide", "mixed").completed.total == 2
    by_candidate = {each.candidate: each.seeds for each in agreements(study, found.pairs, runs, labels)}
    assert (by_candidate["mixed"], by_candidate["mixed_2x"]) == ([0, 1], [0, 1, 2])


def test_the_interval_holds_the_ratio_as_often_as_it_says():
    """In simulated studies seeds differ in noise, and precision changes more or less; the true ratio is 0.5."""
    rng = np.random.default_rng(1)
    num_seeds, num_examples, num_studies = 5, 1000, 300

    def holds() -> bool:
        sure, usual = rng.beta(2, 2, num_examples), rng.integers(0, 10, num_examples)

        def predicted(noise: float) -> np.ndarray:
            return np.where(rng.random(num_examples) > sure * (1 - noise), rng.integers(0, 10, num_examples), usual)

        noises, shares = rng.normal(0.15, 0.03, num_seeds), rng.normal(0.5, 0.04, num_seeds)
        theirs = np.stack([predicted(noise) for noise in noises])
        both = zip(theirs, noises, shares, strict=True)
        ours = np.stack([np.where(rng.random(num_examples) < share, predicted(n), his) for his, n, share in both])
        found = differing(theirs, ours, usual)["ratio"]
        return found.low <= 0.5 <= found.high

    assert 0.91 <= np.mean([holds() for _ in range(num_studies)]) <= 0.99
