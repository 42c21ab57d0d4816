"""Optimizers, learning rates and augmentation by the numbers they give."""

import keras
import numpy as np
import pytest
from conftest import ENGINE, benchmark

from pipeline import models
from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Variant
from pipeline.training import building

PLAIN = Variant(policy="float32", batch_multiplier=1)
DOUBLE = PLAIN.model_copy(update={"batch_multiplier": 2})
AUGMENTATIONS = [
    {"name": "random_flip"},
    {"name": "random_translation", "height_factor": 0.2, "width_factor": 0.2},
]


def recipe(**changes) -> Benchmark:
    return Benchmark.model_validate(benchmark(units=8) | changes)


def compiled(variant=PLAIN, **changes) -> keras.Model:
    chosen = recipe(**changes)
    model, _ = building.build_model(chosen, variant.policy, 10, 1, seed=0)
    building.compile_model(model, chosen, variant)
    return model


def rates(variant=PLAIN, **changes) -> list[float]:
    """The learning rate of every step: 40 examples in batches of 16 or 32, for four epochs."""
    optimizer = compiled(variant, num_epochs=4, **changes).optimizer
    found = []
    for step in range(4 * 3 // variant.batch_multiplier):
        optimizer.iterations.assign(step)
        found.append(float(keras.ops.convert_to_numpy(optimizer.learning_rate)))
    return found


def test_arguments_reach_the_optimizer():
    arguments = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}
    optimizer = compiled(optimizer={"name": "sgd", "learning_rate": 0.1, "arguments": arguments}).optimizer
    assert (optimizer.momentum, optimizer.nesterov, optimizer.weight_decay) == (0.9, True, 0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"momentun": 0.9}, "optimizer.arguments: sgd refuses {'momentun': 0.9}: Argument(s) not recognized"),
        ({"momentum": 7}, "optimizer.arguments: sgd refuses {'momentum': 7}: "),
    ],
)
def test_the_error_names_arguments_that_an_optimizer_does_not_accept(arguments, message):
    with pytest.raises(InputError) as caught:
        compiled(optimizer={"name": "sgd", "learning_rate": 0.1, "arguments": arguments})
    assert message in str(caught.value)


def test_without_a_rule_the_learning_rate_is_constant_and_the_same_at_every_batch_size():
    assert rates() == pytest.approx([0.01] * 12)
    assert rates(DOUBLE) == pytest.approx([0.01] * 6)
    scaled = DOUBLE.model_copy(update={"learning_rate_multiplier": 3.0})
    assert rates(scaled) == pytest.approx([0.03] * 6)


def test_a_warm_up_raises_the_learning_rate_linearly_from_zero():
    expected = [0, 0.01 / 3, 0.02 / 3] + [0.01] * 9
    assert rates(learning_rate_rule={"num_warmup_epochs": 1}) == pytest.approx(expected)
    expected = [0, 0.005] + [0.01] * 4  # two steps an epoch
    assert rates(DOUBLE, learning_rate_rule={"num_warmup_epochs": 1}) == pytest.approx(expected)


def test_cosine_decay_lowers_the_learning_rate_to_zero():
    expected = [0.005 * (1 + np.cos(np.pi * step / 12)) for step in range(12)]
    assert rates(learning_rate_rule={"decay": "cosine"}) == pytest.approx(expected, abs=1e-8)
    after = [0.005 * (1 + np.cos(np.pi * step / 9)) for step in range(9)]
    rule = {"decay": "cosine", "num_warmup_epochs": 1}
    assert rates(learning_rate_rule=rule) == pytest.approx([0, 0.01 / 3, 0.02 / 3, *after], abs=1e-8)


def test_the_double_batch_at_equal_updates_has_the_same_schedule():
    """Four epochs of four steps, or eight of two: a warm-up of four steps, and a cosine over twelve."""
    longer = DOUBLE.model_copy(update={"epoch_multiplier": 2})
    schedule = {"batch_size": 10, "learning_rate_rule": {"decay": "cosine", "num_warmup_epochs": 1}}
    assert rates(longer, **schedule) == pytest.approx(rates(**schedule)[:6], abs=1e-8)


@pytest.mark.parametrize("augmentation", AUGMENTATIONS, ids=lambda a: a["name"])
def test_augmentation_changes_images_only_in_training_and_keeps_their_range(augmentation):
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1)).astype(np.uint8)
    model = models.build(recipe(augmentation=[augmentation]), 10, 1, seed=3)
    until = keras.Model(model.inputs, model.get_layer(augmentation["name"]).output)
    plain = np.asarray(keras.ops.convert_to_numpy(until([images], training=False)))
    np.testing.assert_allclose(plain, images / 255, atol=1e-6)
    augmented = keras.ops.convert_to_numpy(until([images], training=True))
    assert augmented.dtype == np.float32
    assert not np.allclose(augmented, plain)
    assert augmented.min() >= 0
    assert augmented.max() <= 1 + 1e-6


def test_translation_moves_pixel_values_without_creating_new_ones():
    shift = {"name": "random_translation", "height_factor": 0.25, "width_factor": 0.25}
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1)).astype(np.uint8)
    model = models.build(recipe(augmentation=[shift]), 10, 1, seed=3)
    until = keras.Model(model.inputs, model.get_layer("random_translation").output)
    moved = np.rint(255 * keras.ops.convert_to_numpy(until([images], training=True))).astype(int)
    assert (moved != images).any()
    for before, after in zip(images, moved, strict=True):
        assert set(after.ravel().tolist()) <= set(before.ravel().tolist())


def weights_after_steps(**changes) -> list[np.ndarray]:
    model = compiled(**changes)
    images = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 1)).astype(np.uint8)
    for _ in range(3):
        model.train_on_batch(images, np.arange(16) % 10)
    return model.get_weights()


@pytest.mark.skipif(ENGINE == "jax", reason="JAX compiles them")
def test_layers_that_xla_cannot_compile_are_refused():
    with pytest.raises(InputError, match="XLA can't compile random_translation"):
        compiled(Variant(policy="float32", batch_multiplier=1, xla=True), augmentation=AUGMENTATIONS[1:])


def test_augmented_training_repeats_bit_for_bit():
    first, again, none = (weights_after_steps(augmentation=chosen) for chosen in (AUGMENTATIONS, AUGMENTATIONS, []))
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one, two)
    assert not np.array_equal(first[0], none[0])
