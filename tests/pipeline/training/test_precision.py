import keras
import numpy as np
import pytest
from conftest import benchmark

from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark
from pipeline.study.policies import POLICIES
from pipeline.study.variant import Variant
from pipeline.training import building
from pipeline.training.precision import check_float32, check_model, observed_dtypes


def test_a_nested_layer_that_ignores_the_policy_is_detected():
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype="float32")])
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, dtype="mixed_float16"), inner])
    assert observed_dtypes(model, "float32").compute == "float16+float32"


@pytest.mark.parametrize("operation", ["matmul", "conv"])
@pytest.mark.parametrize(("num_bits", "rounded_to"), [(8, "bfloat16"), (11, "tf32"), (16, "float32"), (24, "float32")])
def test_rounded_float32_is_detected_and_refused_under_the_float32_policy(operation, num_bits, rounded_to, monkeypatch):
    """The product is the engine's own; no CPU here rounds, so its factors are rounded before."""
    product = getattr(keras.ops, operation)

    def rounded(factor):
        significand, exponent = np.frexp(factor)
        return np.ldexp(np.round(significand * 2.0**num_bits) / 2.0**num_bits, exponent).astype(np.float32)

    monkeypatch.setattr(
        keras.ops, operation, lambda left, right, **options: product(rounded(left), rounded(right), **options)
    )
    assert check_float32("mixed_float16") == check_float32("tf32") == rounded_to
    if rounded_to == "float32":
        assert check_float32("float32") == "float32"
    else:
        with pytest.raises(InputError, match=f"round float32 to {rounded_to} here"):
            check_float32("float32")


def trained(policy, num_steps=20):
    """Weights of a dense network in float32, its probabilities before training and the loss after each step."""
    recipe = Benchmark.model_validate(benchmark(units=32))
    model, digest = building.build_model(recipe, policy, 10, 1, seed=5)
    building.compile_model(model, recipe, Variant(policy=policy, batch_multiplier=1))
    images = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 1)).astype(np.uint8)
    probabilities = model.predict(images, verbose=0)
    variant = Variant(policy=policy, batch_multiplier=1)
    check_model("mine", recipe, variant, observed_dtypes(model, str(probabilities.dtype)), probabilities)
    return digest, probabilities, [model.train_on_batch(images, np.arange(16) % 10)[0] for _ in range(num_steps)], model


def test_float8_starts_from_the_same_weights_computes_dense_layers_in_8_bits_and_learns():
    digest, probabilities, losses, model = trained("float8")
    same, exact, exact_losses, _ = trained("float32")
    assert digest == same
    # What is left of a loss that falls by six sevenths tells CPUs apart: each rounds bfloat16 in another order.
    assert losses[0] - losses[-1] == pytest.approx(exact_losses[0] - exact_losses[-1], rel=0.05)
    assert 1e-4 < np.abs(probabilities - exact).max() < 0.05  # e4m3 has three bits after the point
    dense = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dense)]
    assert len(dense) == 3
    for layer in dense:  # scales follow the largest values seen
        assert all(float(np.asarray(scale)) != 1.0 for scale in (layer.inputs_scale, layer.outputs_grad_scale))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_trains_in_its_own_dtypes(policy):
    assert np.isfinite(trained(policy, num_steps=2)[2]).all()


def test_a_policy_unknown_to_keras_is_built_from_its_two_dtypes(monkeypatch):
    row = POLICIES["bfloat16"]._replace(variables="float16", keras=None)
    monkeypatch.setitem(POLICIES, "own", row)
    _, _, losses, model = trained("own", num_steps=2)
    assert {str(weight.dtype) for weight in model.weights} == {"float16"}
    assert np.isfinite(losses).all()
