"""Provide the same functions on TensorFlow and JAX for what Keras leaves to its engine.

Set the environment variable KERAS_BACKEND before the first import to choose the engine. Import this module before
Keras, because it suppresses the engine's start-up messages.
"""

import os

from pipeline.engine.loading import check_installed
from pipeline.errors import InputError

NAME = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Keras imports TensorFlow, if installed, even under JAX
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so that CUDA and NVML number GPUs alike

# Use Keras's defaults. A user's ~/.keras/keras.json, KERAS_MAX_EPOCHS and the like would not show in any record.
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
