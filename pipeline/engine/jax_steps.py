"""Training steps on JAX: functions from state to state, whose results are assigned to the model afterwards."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras


def training_step(model: Any) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """Return one training step of a compiled Keras model as JAX compiles it, and what tells the state it begins with.

    The step takes the state, images (N, ...) and labels (N,), and returns the next state, the mean loss before scaling
    and the number of examples that were right. Its state is taken over: the values it came with are gone afterwards.
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
        # This unscales them; a dynamic scale leaves a step out whose gradients are not finite, and is halved.
        trainable, optimizer_values = optimizer.stateless_apply(optimizer_values, gradients, trainable)
        return (trainable, others, optimizer_values), loss, right

    return step, lambda: tuple(_values(part) for part in _parts(model))


def gradients(model: Any, images: Any, labels: Any) -> list[Any]:
    """Return the gradients of the scaled loss of a compiled model by its trainable variables."""
    trainable, others, optimizer_values = (_values(part) for part in _parts(model))

    def scaled_loss(trainable: Any) -> Any:
        probabilities, _ = model.stateless_call(trainable, others, images, training=True)
        return _scaled(model.optimizer, optimizer_values, model.compute_loss(y=labels, y_pred=probabilities))

    return list(jax.jit(jax.grad(scaled_loss))(trainable))


def gradient_step(model: Any) -> tuple[Callable[..., Any], Callable[[], None]]:
    """Return one training step of a compiled Keras model, written out; and what brings the model up to date after some.

    The step takes images (N, ...) and labels (N,), and returns the mean loss before scaling and the number of examples
    that were right, both still on the device. Between steps the model's values are in a state that each step takes
    over, as in Keras's own loop.
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


def apply_step(optimizer: Any, variable: Any) -> Any:
    """Return a compiled function that applies one gradient, a NumPy array of the variable's shape."""

    @jax.jit
    def step(optimizer_values: Any, value: Any, gradient: Any) -> Any:
        scaled = gradient * _scaled(optimizer, optimizer_values, 1.0)
        return optimizer.stateless_apply(optimizer_values, [scaled], [value])

    def apply(gradient: Any) -> None:
        values, optimizer_values = step(_values(optimizer.variables), variable.value, gradient)
        _assign([variable], values)
        _assign(optimizer.variables, optimizer_values)

    return apply


def _scaled(optimizer: Any, optimizer_values: Any, loss: Any) -> Any:
    """Return the loss times the loss scale that `optimizer` has among these values of its variables."""
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, optimizer_values, strict=True))):
        return optimizer.scale_loss(loss)


def _parts(model: Any) -> tuple[Any, Any, Any]:
    return model.trainable_variables, model.non_trainable_variables, model.optimizer.variables


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
