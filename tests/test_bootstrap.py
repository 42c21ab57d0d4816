import numpy as np
import pytest

from pipeline.bootstrap import NUM_DRAWS, CrossedBootstrap


def test_it_agrees_with_loops_over_seeds_and_examples():
    rng = np.random.default_rng(0)
    gains = rng.integers(-1, 2, (4, 30)).astype(np.int8)
    bootstrap = CrossedBootstrap(30)
    weights = bootstrap.seed_weights(4)
    means = [
        100
        * sum(w * v * g for w, row in zip(weights[i], gains, strict=True) for v, g in zip(examples, row, strict=True))
        / 120
        for i, examples in enumerate(bootstrap.example_weights.astype(np.float64))
    ]
    expected = np.percentile(means, [2.5, 97.5])
    # The example weights are small integers, so that float32 sums them without rounding.
    assert tuple(bootstrap.interval(gains)) == pytest.approx(tuple(expected), abs=1e-5)


def test_every_draw_holds_as_many_seeds_and_examples_as_there_are():
    bootstrap = CrossedBootstrap(50)
    assert (bootstrap.example_weights.sum(axis=1) == 50).all()
    assert bootstrap.seed_weights(3).shape == (NUM_DRAWS, 3)
    assert (bootstrap.seed_weights(3).sum(axis=1) == 3).all()


def test_seeds_that_agree_leave_the_spread_of_the_examples():
    """One hundredth of 1,000 examples lost at every seed: √(0.01 · 0.99 / 1000) is 0.31 pp."""
    gains = np.zeros((5, 1000), np.int8)
    gains[:, :10] = -1
    low, high = CrossedBootstrap(1000).interval(gains)
    assert (high - low) / 2 == pytest.approx(1.96 * 0.315, rel=0.1)


def test_examples_that_agree_leave_the_spread_of_the_seeds():
    gains = np.array([[1] * 100, [0] * 100, [-1] * 100], np.int8)
    assert CrossedBootstrap(100).interval(gains) == pytest.approx((-100, 100), abs=1)


def test_it_repeats():
    gains = np.random.default_rng(1).integers(-1, 2, (3, 40)).astype(np.int8)
    assert CrossedBootstrap(40).interval(gains) == CrossedBootstrap(40).interval(gains)
