"""Build training steps on JAX: functions that turn a state into the next state.

A state holds the values of all variables of a model and its optimizer.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras


def training_step(model: Any) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """Return a training step, jitted by JAX, and a function that returns the model's present state.

    The step takes a state, images (N, ...) and labels (N,). It returns the next state, the mean loss before scaling and
    the number of correctly classified examples. The step reuses the memory of the state that it takes, and so destroys
    that state.

    Args:
        model: a Keras model on which `compile` was called.
    """
    optimizer = model.optimizer

    def scaled_loss(trainable: Any, others: Any, optimizer_values: Any, images: Any, labels: Any) -> Any:
        probabilities, others = model.stateless_call(trainable, others, images, training=True)
        loss = model.compute_loss(y=labels, y_pred=probabilities)
        right = (probabilities.argmax(axis=1) == labels).sum()
        return _scaled(optimizer, optimizer_values, loss), (others, loss, right)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, images: Any, labels: Any) -> Any:
        trainable, others, optimizer_values = state
        derive = jax.grad(scaled_loss, has_aux=True)
        gradients, (others, loss, right) = derive(trainable, others, optimizer_values, images, labels)
        # The optimizer unscales the gradients. With a dynamic loss scale, it skips the step and halves the scale if the
        # gradients are not finite.
        trainable, optimizer_values = optimizer.stateless_apply(optimizer_values, gradients, trainable)
        return (trainable, others, optimizer_values), loss, right

    return step, lambda: tuple(_values(part) for part in _parts(model))


def gradients(loss: Callable[[], Any], variables: Sequence[Any]) -> list[Any]:
    """Return the gradients of `loss()`, a scalar, with respect to `variables`.

    Discard the changes that `loss` makes to variables.
    """

    def value(values: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return loss()

    return list(jax.jit(jax.grad(value))(_values(variables)))


def try_step(model: Any, images: Any, labels: Any) -> None:
    """Trace a training step of a compiled Keras model, to find errors. Skip XLA's compilation, which takes seconds."""
    step, first_state = training_step(model)
    jax.eval_shape(step, first_state(), images, labels)


def gradient_step(model: Any) -> tuple[Callable[..., Any], Callable[[], None]]:
    """Return a function that takes a training step, and a function that then updates the model's variables.

    The step takes images (N, ...) and labels (N,). It returns the mean loss before scaling and the number of correctly
    classified examples, both still on the device. As in Keras's own loop, a state outside the model holds the values of
    the variables between steps, and each step replaces the state. Call the second function at the end of each epoch.

    Args:
        model: a Keras model on which `compile` was called.
    """
    step, first_state = training_step(model)
    state: Any = None

    def train(images: Any, labels: Any) -> tuple[Any, Any]:
        nonlocal state
        state, loss, right = step(state or first_state(), images, labels)
        return loss, right

    def settle() -> None:
        nonlocal state
        for part, values in zip(_parts(model), state, strict=True):
            _assign(part, values)
        state = None

    return train, settle


def _scaled(optimizer: Any, optimizer_values: Any, loss: Any) -> Any:
    """Return `loss` multiplied by the loss scale that `optimizer` has if its variables have `optimizer_values`."""
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, optimizer_values, strict=True))):
        return optimizer.scale_loss(loss)


def _parts(model: Any) -> tuple[Any, Any, Any]:
    return model.trainable_variables, model.non_trainable_variables, model.optimizer.variables


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
