"""Build training steps on JAX: functions from one state to the next. The model gets the last state afterwards."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras


def training_step(model: Any) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """Return a compiled Keras model's training step, jitted by JAX, and a function that returns its first state.

    The step takes the state, images (N, ...) and labels (N,). It returns the next state, the mean loss before scaling
    and the number of correct examples. It reuses the memory of the state passed in, and destroys that state.
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
        # This unscales the gradients. If they are not finite, a dynamic scale skips the step and is halved.
        trainable, optimizer_values = optimizer.stateless_apply(optimizer_values, gradients, trainable)
        return (trainable, others, optimizer_values), loss, right

    return step, lambda: tuple(_values(part) for part in _parts(model))


def gradients(loss: Callable[[], Any], variables: Sequence[Any]) -> list[Any]:
    """Return the gradients of `loss()`, a scalar, with respect to `variables`. The loss changes no variable."""

    def value(values: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return loss()

    return list(jax.jit(jax.grad(value))(_values(variables)))


def try_step(model: Any, images: Any, labels: Any) -> None:
    """Trace a training step of a compiled Keras model, but don't have XLA compile it: that would take seconds."""
    step, first_state = training_step(model)
    jax.eval_shape(step, first_state(), images, labels)


def gradient_step(model: Any) -> tuple[Callable[..., Any], Callable[[], None]]:
    """Return a function for a compiled Keras model's training step, and one that updates the model afterwards.

    The step takes images (N, ...) and labels (N,). It returns the mean loss before scaling and the number of correct
    examples, both still on the device. As in Keras's own loop, a state holds the model's values between steps, and
    each step replaces it.
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
    """Return the loss times the loss scale of `optimizer`, for the given values of the optimizer's variables."""
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, optimizer_values, strict=True))):
        return optimizer.scale_loss(loss)


def _parts(model: Any) -> tuple[Any, Any, Any]:
    return model.trainable_variables, model.non_trainable_variables, model.optimizer.variables


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
