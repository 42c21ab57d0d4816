"""The first value of a model that is not finite, on the loaded engine."""

from pipeline import engine  # noqa: F401  first: it silences the engine before Keras imports it

# isort: split
import keras
import numpy as np
import pytest

from pipeline.study.variant import Fixed
from pipeline.training.divergence import first_not_finite
from pipeline.training.precision import scaled

rng = np.random.default_rng(0)
IMAGES, LABELS = rng.integers(0, 256, (40, 8, 8, 1), np.uint8), rng.integers(0, 10, 40)


@keras.saving.register_keras_serializable()
class Masked(keras.layers.Layer):
    """Attention over rows; the last two are masked by a large negative number, which float16 does not have."""

    def __init__(self) -> None:
        super().__init__(name="attend")
        self.query = keras.layers.Dense(8, name="query")

    def call(self, rows):
        scores = keras.ops.matmul(self.query(rows), keras.ops.transpose(rows, (0, 2, 1)))
        kept = keras.ops.cast(keras.ops.arange(8) < 6, scores.dtype)
        return keras.ops.matmul(keras.ops.softmax(scores + (1.0 - kept) * -1e9), rows)


def model_of(*layers: keras.layers.Layer, scale: float = 1.0) -> keras.Model:
    network = keras.Sequential(
        [keras.Input((8, 8, 1), dtype="uint8"), keras.layers.Rescaling(1 / 255), keras.layers.Reshape((8, 8)), *layers]
    )
    network.add(keras.layers.Flatten())
    network.add(keras.layers.Dense(10, activation="softmax", dtype="float32", name="head"))
    optimizer = scaled(keras.optimizers.SGD(), Fixed(mode="fixed", value=scale))
    network.compile(optimizer, "sparse_categorical_crossentropy", auto_scale_loss=False)
    return network


@pytest.fixture
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.mark.usefixtures("policy")
@pytest.mark.filterwarnings("ignore:overflow encountered in cast", "ignore:Layer 'attend'")
@pytest.mark.parametrize(
    ("policy", "found"),
    [("mixed_float16", "the output of attend"), ("mixed_bfloat16", None), ("float32", None)],
    indirect=["policy"],
)
def test_first_not_finite_names_the_layer_whose_mask_is_too_large(found):
    assert first_not_finite(model_of(Masked()), IMAGES, LABELS) == found


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
def test_first_not_finite_names_the_gradient_that_the_loss_scale_makes_infinite():
    hidden = [keras.layers.Dense(8, name=name) for name in ("first", "second")]
    model = model_of(*hidden, scale=2.0**60)
    assert first_not_finite(model, IMAGES, LABELS) == "the gradient of second/bias"
