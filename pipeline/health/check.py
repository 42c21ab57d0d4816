"""Is a model fit for a 16-bit policy? What a few real images show, layer by layer."""

from collections.abc import Callable
from functools import cached_property

import keras
import numpy as np

from pipeline.errors import InputError
from pipeline.health import rules
from pipeline.health.findings import Examination
from pipeline.health.observation import Call, observe
from pipeline.numerics import exponents
from pipeline.study.variant import expected_dtypes

INITIAL_LOSS_SCALE = 2.0**15  # at which a dynamic one starts


class HealthCheck:
    """A model in float32, beside which it is examined under policies, by rules that a healthy one breaks none of.

    One training pass over a few images shows dtypes and values of every layer, also of those inside others. A compiled
    model's optimizer is looked at too.

    Args:
        build: takes a policy; models of one seed differ in nothing else.
        images: what the model takes, (N, ...); a few dozen are enough.
        labels: integer (N,).
        batch_size: of training, by default N. The mean over more examples has smaller gradients.
        multiple: of what the device wants the widths of matrices to be; None where it gains nothing from it.
    """

    def __init__(
        self,
        build: Callable[[str], keras.Model],
        images: np.ndarray,
        labels: np.ndarray,
        batch_size: int | None = None,
        multiple: int | None = None,
    ) -> None:
        self._build = build
        self._images = images
        self._labels = labels
        self._batch_size = batch_size or len(images)
        self._multiple = multiple
        self._model = build("float32")
        self._weights = self._model.get_weights()
        self._calls, self._output = observe(self._model, images)

    def examine(self, policy: str) -> Examination:
        """Return what is wrong with the model under `policy`.

        Raises:
            InputError: it does not have the weights and layers that it has under float32.
        """
        compute = expected_dtypes(policy).compute
        model, calls, output = self._observed(policy)
        scale = INITIAL_LOSS_SCALE if policy == "mixed_float16" else 1.0
        sizes = self._gradient_sizes if compute == "float16" else None
        flushed = None if sizes is None else exponents.flushed_share(sizes)
        flushed_scaled = None if sizes is None else exponents.flushed_share(sizes * np.float32(scale))
        values = list(rules.values(calls, self._calls))
        findings = [
            *rules.output(output, calls, compute),
            *rules.batch_norm(calls),
            *rules.dtypes(calls, compute),
            *rules.zeros(calls, self._calls, values),
            *rules.optimizer(model),
            *values,
            *rules.gradients(flushed_scaled, scale),
        ]
        if self._multiple and compute != "float32":
            findings += rules.shapes(calls, self._multiple, self._images.shape[-1], self._batch_size)
        return Examination(
            policy=policy,
            findings=findings,
            largest_activation=max((call.largest for call in self._calls), default=0.0),
            flushed_share=flushed,
            flushed_share_scaled=flushed_scaled,
        )

    def _observed(self, policy: str) -> tuple[keras.Model, list[Call], np.ndarray]:
        """Return the model under `policy` with the weights of the one in float32, its calls, and its output."""
        if policy == "float32":
            return self._model, self._calls, self._output
        model = self._build(policy)
        if [weight.shape for weight in model.weights] != [weight.shape for weight in self._weights]:
            raise InputError(f"the model must have the same weights under {policy} as under float32")
        model.set_weights(self._weights)
        calls, output = observe(model, self._images)
        if len(calls) != len(self._calls):
            raise InputError(f"the model must have the same layers under {policy} as under float32")
        # Keras numbers the layers of a second model on; those of the first have the names that a summary shows.
        calls = [call._replace(name=first.name) for call, first in zip(calls, self._calls, strict=True)]
        return model, calls, output

    @cached_property
    def _gradient_sizes(self) -> np.ndarray | None:
        """Return the sizes of the activation gradients in float32 that are not zero; None where they can't be had."""
        try:
            sizes = exponents.gradient_sizes(self._model, self._images, self._labels)
        except (AttributeError, TypeError, ValueError):  # no functional model, or outputs that are none of its graph
            return None
        nonzero = sizes[sizes > 0] * np.float32(len(self._images) / self._batch_size)
        return nonzero if len(nonzero) else None
