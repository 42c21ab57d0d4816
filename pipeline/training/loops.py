"""Train a compiled model for some epochs, with Keras's own loop or with a custom loop.

The two loops take the same batches in the same order and call the same callbacks.
"""

from collections.abc import Callable, Sequence

import keras

from pipeline import engine
from pipeline.data.batches import ShuffledBatches

Loop = Callable[[keras.Model, ShuffledBatches, range, Sequence[keras.callbacks.Callback]], None]


def fit(
    model: keras.Model, batches: ShuffledBatches, epochs: range, callbacks: Sequence[keras.callbacks.Callback]
) -> None:
    first = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, _: batches.begin_epoch(epoch))
    model.fit(
        engine.feed(batches),
        initial_epoch=epochs.start,
        epochs=epochs.stop,
        shuffle=False,
        verbose=0,
        callbacks=[first, *callbacks],
    )


def custom(
    model: keras.Model, batches: ShuffledBatches, epochs: range, callbacks: Sequence[keras.callbacks.Callback]
) -> None:
    """Scale the loss of each batch, compute the gradients, and unscale and apply the gradients."""
    step, settle = engine.gradient_step(model)
    listeners = keras.callbacks.CallbackList(list(callbacks), model=model, epochs=epochs.stop, steps=len(batches))
    model.stop_training = False
    listeners.on_train_begin()
    for epoch in epochs:
        batches.begin_epoch(epoch)
        listeners.on_epoch_begin(epoch)
        loss_sum = num_correct = num_examples = 0
        for index in range(len(batches)):
            images, labels = batches[index]
            loss, correct = step(images, labels)  # both stay on the device; nothing waits for them here
            loss_sum += loss * len(labels)
            num_correct += correct
            num_examples += len(labels)
            listeners.on_train_batch_end(index)
        settle()
        engine.synchronise()
        logs = {"loss": float(loss_sum) / num_examples, "accuracy": float(num_correct) / num_examples}
        listeners.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    model.optimizer.finalize_variable_values(model.trainable_variables)  # some optimizers average weights
    listeners.on_train_end()


LOOPS: dict[str, Loop] = {"fit": fit, "custom": custom}
