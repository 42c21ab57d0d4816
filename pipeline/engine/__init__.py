"""Offer the few things that Keras leaves to its engine: the same functions for TensorFlow and for JAX.

The environment variable KERAS_BACKEND, set before this is first imported, names the engine. Import this module before
Keras: it loads the engine without its start-up chatter.
"""

import os

from pipeline.errors import InputError

NAME = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # where TensorFlow is installed, Keras imports it whatever trains
os.environ["KERAS_NNX_ENABLED"] = "false"  # whatever ~/.keras/keras.json says: later it can't be changed
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so that an index means the same GPU to NVML

try:
    if NAME == "jax":
        from pipeline.engine.on_jax import *  # noqa: F403
    else:
        from pipeline.engine.on_tensorflow import *  # noqa: F403
except ModuleNotFoundError as error:
    if error.name not in ("jax", "tensorflow"):
        raise
    raise InputError(f"engine: {error.name} is not installed here; `make help` says how to set up another.") from None

import keras  # noqa: E402  which an engine has imported in silence

# As Keras has it by default, whatever ~/.keras/keras.json and KERAS_MAX_EPOCHS say: no record would show it.
keras.config.set_floatx("float32")
keras.config.set_epsilon(1e-7)
keras.config.set_image_data_format("channels_last")
keras.config.set_max_epochs(None)
keras.config.set_max_steps_per_epoch(None)
