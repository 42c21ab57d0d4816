"""The numerics stage's results, compared with the definitions of the types."""

import math

import numpy as np
import pytest
from conftest import benchmark

# isort: split
import keras

from pipeline.data.batches import ShuffledBatches
from pipeline.data.datasets import Dataset, Examples
from pipeline.numerics import arithmetic, experiments, exponents
from pipeline.numerics.facts import KERAS_POLICIES, TRIAL_SIZE, TRIALS, OptimizerTrial, TrainingSize, fact_names
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Variant
from pipeline.training.building import build_model

RECIPE = Benchmark.model_validate(benchmark(units=16))


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Images whose brightness is their label: 400 to train on, 100 to validate."""
    rng = np.random.default_rng(0)

    def examples(count: int) -> Examples:
        labels = np.arange(count) % 10
        images = labels[:, None, None, None] * 25 + rng.integers(0, 20, (count, 8, 8, 1))
        return Examples(images.astype(np.uint8), labels)

    return Dataset(examples(400), examples(100), examples(100), num_classes=10, sha256="d", came_from="here")


def test_facts_give_the_range_as_the_formats_define_it(data):
    """Half of float16's smallest subnormal, 2⁻²⁴, is 2.98e-8; the half-way point after 65,504 is 65,520."""
    facts = arithmetic.range_facts()
    exactly = {
        "largest.float16": 65504.0,
        "largest.bfloat16": (2 - 2**-7) * 2.0**127,
        "largest.float32": float(np.finfo(np.float32).max),
        "square_of_256.float16": "inf",
        "square_of_256.bfloat16": "65536.0",
        "square_of_256.float32": "65536.0",
        "square_of_1e-05.float16": "0.0",
        "smallest_square_is_zero.float16": True,
        "smallest_square_is_zero.bfloat16": False,
        "rounded_4e-08.float16": str(2.0**-24),
        "rounded_65519.float16": "65504.0",
        "softmax_of_minus_20_is_zero.float16": True,  # e⁻²⁰ is 2.06e-9
        "softmax_of_minus_20_is_zero.bfloat16": False,
        "softmax_of_minus_20_is_zero.float32": False,
        "parameters_of_twice_the_units.64": 2.15,
        "parameters_of_twice_the_units.4096": 3.67,
    }
    assert {name: facts[name] for name in exactly} == exactly
    assert float(facts["square_of_1e-05.bfloat16"]) == pytest.approx(1e-10, rel=2**-8)
    recipe = RECIPE.with_dense_model(64).model_copy(update={"image_size": 28})
    assert arithmetic.dense_parameters(64) == experiments.build(recipe, data, "float32").count_params()


@pytest.mark.parametrize(("dtype", "num_lanes"), [("float16", 1), ("bfloat16", 32)])
def test_a_16_bit_sum_is_distinguished_from_a_float32_sum(dtype, num_lanes):
    """Products are added up in lanes, which are then added two by two, as vector units do."""
    rng = np.random.default_rng(1)
    left, right = (1 + rng.integers(0, 16, (4096, 64)) / 16 for _ in range(2))

    def summed(dtype: str) -> np.ndarray:
        lanes = np.zeros((num_lanes, 64, 64), dtype)
        for row in range(0, 4096, num_lanes):
            here = slice(row, row + num_lanes)
            lanes += (left[here, :, None] * right[here, None, :]).astype(dtype)
        while len(lanes) > 1:
            lanes = lanes[0::2] + lanes[1::2]
        return lanes[0]

    rounded = summed("float32").astype(dtype).astype(np.float64)
    assert arithmetic.ends_beside(rounded, left.T @ right, dtype)
    assert not arithmetic.ends_beside(summed(dtype).astype(np.float64), left.T @ right, dtype)


def test_the_engine_accumulates_products_in_float32_or_in_their_own_type():
    facts = arithmetic.accumulation_facts()
    assert set(facts) < fact_names([])
    assert all(value in ("float32", name.partition(".")[2]) for name, value in facts.items())


def test_the_notebooks_split_mixes_training_and_validation_examples():
    """The two parts are shuffled independently: by chance, four in five of 10,000 examples are in both."""
    assert abs(experiments.trained_on() - 8000) < 5 * np.sqrt(10_000 * 0.8 * 0.2)


def test_another_seed_gives_another_split(monkeypatch):
    """The stage makes it in two processes; tests/engines checks that these two are the same."""
    split = experiments.split_digest()
    assert experiments.split_digest() == split
    monkeypatch.setattr(experiments, "SHUFFLE_SEED", 43)
    assert experiments.split_digest() != split


def test_training_on_validation_examples_raises_the_validation_accuracy(data, monkeypatch):
    """Random labels can only be learnt by heart: a model knows those it was trained on, and no others."""
    monkeypatch.setattr(experiments, "NUM_VALIDATED", 100)
    monkeypatch.setattr(
        experiments, "SPLIT_SIZE", TrainingSize(units=128, num_examples=100, batch_size=10, num_epochs=30)
    )
    labels = np.random.default_rng(0).permutation(data.train.labels)
    noise = np.random.default_rng(1).integers(0, 255, data.train.images.shape).astype(np.uint8)
    by_chance = data._replace(train=data.train._replace(images=noise, labels=labels))
    (gain,) = experiments.split_gains(RECIPE, by_chance, share=0.8, seeds=(0,))
    assert gain > 20
    assert experiments.split_gains(RECIPE, by_chance, share=0.0, seeds=(0,)) == [0.0]


def test_first_steps_are_skipped_if_gradients_overflow(data, monkeypatch):
    assert experiments.skipped_steps(RECIPE, data, (0, 1)) == [0, 0]
    monkeypatch.setattr(experiments, "Variant", lambda **chosen: Variant(
        **chosen, loss_scale={"mode": "dynamic", "initial": 2.0**30}))  # fmt: skip
    first, again = experiments.skipped_steps(RECIPE, data, (0, 0))
    assert first == again > 0  # the second time from the same start


def test_the_loss_scale_doubles_after_a_growth_period_and_halves_at_an_overflow(monkeypatch):
    assert arithmetic.loss_scale_facts() == {
        "loss_scale.start": 32768.0,
        "loss_scale.growth_steps": 2000,
        "loss_scale.growth_factor": 2.0,
        "loss_scale.factor_at_overflow": 0.5,
        "loss_scale.overflow_is_skipped": True,
    }
    monkeypatch.setattr(arithmetic, "GROWTH_STEPS", 1999)
    assert arithmetic.loss_scale_facts()["loss_scale.growth_steps"] == -1  # it would show


def test_facts_give_the_dtypes_under_each_policy():
    facts = arithmetic.policy_facts()
    for policy in KERAS_POLICIES:
        narrow = policy.removeprefix("mixed_")
        assert facts[f"compute_dtype.{policy}"] == narrow
        assert facts[f"variable_dtype.{policy}"] == ("float32" if policy.startswith("mixed") else narrow)
        assert facts[f"hidden_dtype.{policy}"] == facts[f"softmax_dtype.{policy}"] == narrow
        assert facts[f"output_dtype.{policy}"] == "float32"
        assert facts[f"default_loss_scale.{policy}"] == ("dynamic" if policy == "mixed_float16" else "none")


@pytest.mark.parametrize(
    ("policy", "ratio"), [("float32", 1), ("mixed_float16", 1), ("float16", 0.5), ("bfloat16", 0.5)]
)
def test_weights_take_half_the_bytes_under_a_pure_16_bit_policy(data, policy, ratio):
    assert arithmetic.weights_ratio(RECIPE, data, policy) == ratio


def test_float16_flushes_gradients_up_to_half_its_smallest_subnormal():
    """Half of the smallest subnormal, 2⁻²⁵, rounds to zero; anything above it does not."""
    values = np.array([2.0**-26, 2.0**-25, 2.0**-25 * 1.01, 2.0**-24, 1.0], np.float32)
    assert exponents.flushed_share(values) == pytest.approx(2 / 5)
    assert exponents.flushed_share(values * 8) == 0


def by_hand(weights: list[np.ndarray], images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The dense network forward and backward in float64: the sizes of all outputs but the last, and of gradients."""
    first, first_bias, second, second_bias, third, third_bias = (weight.astype(np.float64) for weight in weights)
    pixels = images.reshape(len(images), -1) / 255.0
    one = np.maximum(pixels @ first + first_bias, 0)
    two = np.maximum(one @ second + second_bias, 0)
    logits = two @ third + third_bias
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    of_logits = (probabilities - np.eye(10)[labels]) / len(labels)
    of_two = of_logits @ third.T
    of_one = of_two * (two > 0) @ second.T
    of_pixels = of_one * (one > 0) @ first.T
    outputs, gradients = (pixels, one, two, logits), (of_pixels, of_one, of_two, of_logits)
    return tuple(np.abs(np.concatenate([each.ravel() for each in those])) for those in (outputs, gradients))


def test_outputs_and_gradients_of_a_network_match_those_worked_out_in_float64(data):
    model = experiments.build(RECIPE, data, "float32", seed=1)
    images, labels = data.train.images[:16], data.train.labels[:16]
    outputs, gradients = by_hand(model.get_weights(), images, labels)
    found = exponents.sizes_of_step(model, images, labels)
    assert [len(sizes) for sizes in found] == [16 * (64 + 16 + 16 + 10)] * 2
    np.testing.assert_allclose(np.sort(found[0]), np.sort(outputs), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.sort(found[1]), np.sort(gradients), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("loss_scale", [2.0**15, 2.0**22])
def test_the_histogram_of_a_training_step_matches_gradients_worked_out_in_float64(data, loss_scale):
    """float16 flushes what is at most 2⁻²⁵, and 65,520 or more is infinite."""
    model = experiments.build_for_steps(RECIPE, data, "float32")
    batches = ShuffledBatches(data.train, RECIPE.batch_size, seed=0)
    experiments.take_steps(model, batches, exponents.NUM_STEPS_BEFORE)
    outputs, sizes = (each[each > 0] for each in by_hand(model.get_weights(), *batches[0]))
    counts = np.zeros(len(range(exponents.LOWEST, exponents.HIGHEST + 1)), int)
    for size in sizes:
        counts[math.frexp(size)[1] - 1 - exponents.LOWEST] += 1
    found = exponents.gradient_exponents(RECIPE, data, loss_scale)
    assert found["exponents"] == list(range(exponents.LOWEST, exponents.HIGHEST + 1))
    assert sum(found["counts"]) == counts.sum()
    assert np.abs(np.subtract(found["counts"], counts)).sum() < 0.01 * counts.sum()  # those beside a power of two
    one = 1.01 / len(sizes)  # a value beside the border
    assert found["flushed_share"] == pytest.approx((sizes <= 2.0**-25).mean(), abs=one)
    assert found["flushed_share_scaled"] == pytest.approx((sizes * loss_scale <= 2.0**-25).mean(), abs=one)
    assert found["overflow_share_scaled"] == pytest.approx((sizes * loss_scale >= 65520).mean(), abs=one)
    assert found["forward_flushed_share"] == (outputs <= 2.0**-25).mean()


def test_gradients_of_a_one_layer_network_follow_from_its_probabilities():
    """The mean of -log(p / Σp) over two images, where p is a half: -1/2 at the true class, 1/2 at the other."""
    inputs = keras.Input((2,))
    network = keras.Model(inputs, keras.layers.Dense(2, activation="softmax", kernel_initializer="zeros")(inputs))
    _, sizes = exponents.sizes_of_step(
        keras.Model(inputs, network(inputs)), np.ones((2, 2), np.float32), np.array([0, 1])
    )
    np.testing.assert_allclose(sizes, [0.5] * 4, atol=1e-6)


def test_trials_tell_known_failures_from_a_success(data, monkeypatch):
    """In bfloat16 Keras's beta_2 of Adam, 0.999, rounds to 1: the weights never move."""
    monkeypatch.setattr(experiments, "TRIAL_SIZE", TRIAL_SIZE._replace(units=24, batch_size=8, num_epochs=15))
    monkeypatch.setattr(experiments, "SHORTFALL", 0.2)
    scaled = [TRIALS[-1]._replace(loss_scale=scale) for scale in (2.0**30, 1024.0)]
    monkeypatch.setattr(experiments, "TRIALS", [OptimizerTrial("", "bfloat16", "adam", {}), *scaled])
    rows = list(experiments.run_trials(RECIPE, data, (0,)))
    assert [(row["num_trained"], row["num_trials"]) for row in rows] == [(0, 1), (0, 1), (1, 1)]
    assert min(accuracy for row in rows for accuracy in row["float32_accuracies"]) > 0.5


def test_a_reset_model_trains_exactly_as_before(data):
    """Adam's moments and step count are reset with the weights."""
    model, _ = build_model(RECIPE, "float32", 10, 1, seed=0)
    ends, start, size = [], model.get_weights(), TrainingSize(units=16, num_examples=32, batch_size=8, num_epochs=2)
    for _ in experiments.train_from_each(model, keras.optimizers.Adam(), [(0, start)] * 2, data.train, size):
        ends.append(model.get_weights())
    for first, second, before in zip(*ends, start, strict=True):
        np.testing.assert_array_equal(first, second)
        assert (first != before).any()
