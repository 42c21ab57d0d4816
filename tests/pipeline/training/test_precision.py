import keras
import numpy as np
import pytest

from pipeline.study.variant import Dtypes, expected_dtypes
from pipeline.training.precision import observed_dtypes


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("float32", Dtypes("float32", "float32", "float32")),
        ("mixed_float16", Dtypes("float16", "float32", "float32")),
        ("mixed_bfloat16", Dtypes("bfloat16", "float32", "float32")),
        ("float16", Dtypes("float16", "float16", "float32")),
        ("bfloat16", Dtypes("bfloat16", "bfloat16", "float32")),
    ],
)
def test_a_policy_names_its_dtypes_and_a_model_has_them(policy, expected):
    assert expected_dtypes(policy) == expected
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3, dtype=policy), keras.layers.Activation("softmax", dtype="float32")]
    )
    assert observed_dtypes(model, str(model.predict(np.ones((1, 4)), verbose=0).dtype)) == expected


def test_a_nested_layer_that_ignores_the_policy_is_seen():
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype="float32")])
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, dtype="mixed_float16"), inner])
    assert observed_dtypes(model, "float32").compute == "float16+float32"
