"""Sketches keep how far weights are apart."""

import numpy as np
import pytest

from pipeline.records.sketch import NUM_BUCKETS, sketch


def weights(rng: np.random.Generator, scale: float = 1.0) -> list[np.ndarray]:
    return [scale * rng.normal(size=shape).astype(np.float32) for shape in ((784, 64), (64,), (3, 3, 8, 16))]


@pytest.mark.parametrize("share", [1.0, 1e-4])
def test_distances_of_sketches_are_those_of_the_weights(share):
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(50):
        ours, change = weights(rng), weights(rng, share)
        theirs = [a + b for a, b in zip(ours, change, strict=True)]
        true = np.sqrt(sum(float((each.astype(np.float64) ** 2).sum()) for each in change))
        errors.append(np.linalg.norm(sketch(theirs) - sketch(ours)) / true - 1)
    assert abs(np.mean(errors)) < 0.02
    assert np.std(errors) < 1.5 * np.sqrt(0.5 / NUM_BUCKETS)


def test_a_sketch_depends_on_the_place_of_a_number():
    one, other = np.zeros(100), np.zeros(100)
    one[3], other[4] = 1, 1
    assert np.linalg.norm(sketch([one]) - sketch([other])) > 0


def test_16_bit_weights_are_sketched_as_they_are():
    import ml_dtypes

    values = np.linspace(-1, 1, 64)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        rounded = values.astype(dtype)
        assert np.array_equal(sketch([rounded]), sketch([rounded.astype(np.float64)]))
        assert not np.array_equal(sketch([rounded]), sketch([values]))
