"""Normalize batches with TensorFlow's fused kernel."""

from typing import Any

import keras
import tensorflow as tf


class BatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """Normalize images (N, H, W, C) as Keras's layer does, but in one kernel forward and one backward.

    Keras 3 casts to float32 and runs a dozen operations. The published sources ran this kernel, which TensorFlow's own
    Keras used. The kernel takes and returns 16-bit tensors, but computes in float32. The moving variance follows Keras
    3, which averages the batch's own variance. The sources averaged the kernel's estimate of the population's variance
    (with Bessel's correction).

    The layer has Keras's arguments, names and weights. It supports only what our models need: channels come last,
    `scale` and `center` are true, no layer is frozen, and there are no masks.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        gamma, beta, mean, variance = (
            keras.ops.cast(variable, "float32")  # the kernel takes float32 under every policy
            for variable in (self.gamma, self.beta, self.moving_mean, self.moving_variance)
        )
        learns = bool(training)
        outputs, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=gamma,
            offset=beta,
            mean=mean,
            variance=variance,
            epsilon=self.epsilon,
            is_training=learns,
        )
        if learns:
            num_values = tf.cast(tf.size(inputs) // inputs.shape[-1], tf.float32)
            batch_variance *= (num_values - 1) / num_values
            for variable, old, new in (
                (self.moving_mean, mean, batch_mean),
                (self.moving_variance, variance, batch_variance),
            ):
                variable.assign(old * self.momentum + new * (1 - self.momentum))
        return outputs
