"""Offer the few things that Keras leaves to its engine: the same functions for TensorFlow and for JAX.

The environment variable KERAS_BACKEND, set before this is first imported, names the engine. Import this module before
Keras: it loads the engine without its start-up chatter.
"""

import os

from pipeline.errors import InputError

NAME = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # where TensorFlow is installed, Keras imports it whatever trains
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so that an index means the same GPU to NVML

# Keras is as it comes: nothing of a user's ~/.keras/keras.json, KERAS_MAX_EPOCHS and the like, which no record shows.
for setting in [name for name in os.environ if name.startswith("KERAS_") and name != "KERAS_BACKEND"]:
    del os.environ[setting]
os.environ["KERAS_HOME"] = f"{os.devnull}/keras"  # where no keras.json can be read or written

try:
    if NAME == "jax":
        from pipeline.engine.on_jax import *  # noqa: F403
    else:
        from pipeline.engine.on_tensorflow import *  # noqa: F403
except ModuleNotFoundError as error:
    if error.name not in ("jax", "tensorflow"):
        raise
    raise InputError(f"engine: {error.name} is not installed here; `make help` says how to set up another.") from None
