"""Parameter counts are worked out here from the layers' definitions, not read off the model."""

import numpy as np
import pytest

from pipeline import engine  # noqa: F401  loads the engine quietly

# isort: split
from pipeline import models
from pipeline.study.benchmark import Benchmark, EfficientNet, ResNet9, Transformer
from pipeline.study.policies import POLICIES
from pipeline.training.building import build_model

from conftest import benchmark  # isort: skip

DENSE = Benchmark.model_validate(benchmark(units=16))
B0_MODEL = EfficientNet(name="efficientnet", source="pipeline/models/efficientnet.py")
TRANSFORMER = Transformer(name="transformer", width=8, num_blocks=2, source="pipeline/models/transformer.py")
EFFICIENTNET = Benchmark.model_validate(benchmark(units=16) | {"model": B0_MODEL.model_dump(), "image_size": 32})


def conv(kernel, channels, filters):
    return kernel * kernel * channels * filters + filters


def batch_norm(channels):
    return 4 * channels


def block(channels, filters, kernel, expansion):
    wide = channels * expansion
    squeezed = wide // 24 if wide % 24 == 0 else wide // 4
    return (
        conv(1, channels, wide)
        + batch_norm(wide)
        + kernel * kernel * wide  # one filter a channel
        + wide  # its bias
        + batch_norm(wide)
        + conv(1, wide, squeezed)
        + conv(1, squeezed, wide)
        + conv(1, wide, filters)
        + batch_norm(filters)
    )


# (filters, kernel, repeats, expansion) of each stage.
B0 = [(16, 3, 1, 1), (24, 3, 2, 6), (40, 5, 2, 6), (80, 3, 3, 6), (112, 5, 3, 6), (192, 5, 4, 6), (320, 3, 1, 6)]


def test_efficientnet_has_as_many_parameters_as_its_layers_imply():
    total, channels = conv(3, 3, 32) + batch_norm(32), 32
    for filters, kernel, repeats, expansion in B0:
        for _ in range(repeats):
            total += block(channels, filters, kernel, expansion)
            channels = filters
    total += conv(1, channels, 1280) + batch_norm(1280) + 1280 * 100 + 100
    assert models.build(EFFICIENTNET, 100, 3).count_params() == total == 4199856


def test_resnet9_has_as_many_parameters_as_its_layers_imply():
    """Convolutions without a bias at widths w, 2w, 4w and 8w; residual blocks of two at 2w and 8w."""
    filters = [(3, 4), (4, 8), (8, 8), (8, 8), (8, 16), (16, 32), (32, 32), (32, 32)]
    total = sum(9 * old * new + batch_norm(new) for old, new in filters) + 32 * 100 + 100
    model = ResNet9(name="resnet9", width=4, source="pipeline/models/resnet9.py")
    network = models.build(EFFICIENTNET.model_copy(update={"model": model}), 100, 3).layers[-1]
    assert network.count_params() == total
    pools = [layer for layer in network.layers if "Pooling" in type(layer).__name__]
    assert [pool.output.shape[1:] for pool in pools] == [(16, 16, 8), (8, 8, 16), (4, 4, 32), (32,)]


def test_efficientnet_shrinks_images_by_a_factor_of_32_and_depth_adds_blocks():
    scaled = EFFICIENTNET.model_copy(update={"model": B0_MODEL.model_copy(update={"depth": 1.2})})
    network = models.build(scaled, 100, 3).layers[-1]
    depthwise = [layer for layer in network.layers if type(layer).__name__ == "DepthwiseConv2D"]
    assert len(depthwise) == 1 + 3 + 3 + 4 + 4 + 5 + 2
    assert network.layers[-4].output.shape[1:3] == (1, 1)


def test_images_are_scaled_and_resized_inside_the_model():
    model = models.build(DENSE, 10, 1)
    small, large = np.full((1, 4, 4, 1), 100, np.uint8), np.full((1, 16, 16, 1), 100, np.uint8)
    flat = model.layers[-1](np.full((1, 8, 8, 1), 100 / 255, np.float32))
    for images in (small, large):
        np.testing.assert_allclose(model(images), flat, rtol=1e-5)


def test_initial_weights_depend_on_the_seed_alone():
    digests = {policy: build_model(DENSE, policy, 10, 1, seed=3)[1] for policy in POLICIES}
    assert len(set(digests.values())) == 1
    assert build_model(DENSE, "float32", 10, 1, seed=4)[1] not in digests.values()


def test_sixteen_bit_weights_are_rounded_from_the_float32_ones():
    reference, _ = build_model(DENSE, "float32", 10, 1, seed=3)
    rounded, _ = build_model(DENSE, "float16", 10, 1, seed=3)
    for wide, narrow in zip(reference.get_weights(), rounded.get_weights(), strict=True):
        assert narrow.dtype == np.float16
        assert np.array_equal(wide.astype(np.float16), narrow)


def test_the_transformer_has_as_many_parameters_as_its_layers_imply():
    """64 tokens of 8 values, from patches of 4 × 4 × 3 pixels; two blocks, whose dense layers are twice as wide."""
    width, num_blocks = 8, 2
    attention = 4 * (width * width + width)
    dense = width * 2 * width + 2 * width + 2 * width * width + width
    block_size = 2 * 2 * width + attention + dense
    total = conv(4, 3, width) + 64 * width + num_blocks * block_size + 2 * width + width * 100 + 100
    recipe = EFFICIENTNET.model_copy(update={"model": TRANSFORMER})
    assert models.build(recipe, 100, 3).count_params() == total


@pytest.mark.parametrize("policy", [name for name, policy in POLICIES.items() if policy.keras == name])
def test_the_transformer_computes_in_the_dtype_of_its_policy_from_the_same_weights(policy):
    recipe = EFFICIENTNET.model_copy(update={"model": TRANSFORMER})
    model, digest = build_model(recipe, policy, 100, 3, seed=3)
    computed = {layer.compute_dtype for layer in model.layers[-1].layers if layer.weights}
    assert computed == {POLICIES[policy].products}
    assert digest == build_model(recipe, "float32", 100, 3, seed=3)[1]
