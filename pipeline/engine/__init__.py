"""Provide functions that Keras lacks, under the same names on TensorFlow and on JAX, the two engines.

Only `kept_on_device` is missing on TensorFlow, where `keeps_images` always returns False.

To choose the engine, set the environment variable KERAS_BACKEND before the first import; by default, it is
`tensorflow`. Import this package before Keras, because this package suppresses the engine's start-up messages.
"""

import os

from pipeline.engine.loading import check_installed
from pipeline.errors import InputError

NAME = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Keras imports TensorFlow, if installed, even under JAX
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so that CUDA and NVML count GPUs in the same order

# Use Keras's defaults, because no record would show a user's ~/.keras/keras.json or variables like KERAS_MAX_EPOCHS.
for setting in [name for name in os.environ if name.startswith("KERAS_") and name != "KERAS_BACKEND"]:
    del os.environ[setting]
os.environ["KERAS_HOME"] = f"{os.devnull}/keras"  # no keras.json can be read or written there

check_installed("keras", "numpy", NAME)
try:
    if NAME == "jax":
        from pipeline.engine.on_jax import *  # noqa: F403
    else:
        from pipeline.engine.on_tensorflow import *  # noqa: F403
except ModuleNotFoundError as error:
    if error.name not in ("jax", "tensorflow"):
        raise
    raise InputError(f"engine: {error.name} is not installed here; see `make help` for the engines.") from None
