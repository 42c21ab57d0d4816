"""Blocks of real training, as the process that trains them reports them."""

import keras
import pytest
from conftest import small_study

from pipeline.errors import InputError
from pipeline.speed import training
from pipeline.speed.training import train_blocks
from pipeline.speed.turns import Task
from pipeline.training.evaluation import score

pytestmark = pytest.mark.usefixtures("workspace", "inside")


def blocks_of(*tasks, variant: str = "mixed", **recipe):
    found = []
    train_blocks(small_study(recipe), "wide", variant, iter(tasks), found.append)
    return found


def test_a_validated_block_predicts_all_validation_images_in_one_call(monkeypatch):
    calls = []

    def scored(model, examples, batch_size):
        calls.append((len(examples.labels), batch_size))
        return score(model, examples, batch_size)

    monkeypatch.setattr(training, "score", scored)
    blocks = blocks_of(Task(2), Task(2, True), Task(2), Task(1, True), evaluation_batch_size=3)
    assert [block.num_steps for block in blocks] == [2, 2, 2, 1]
    assert [block.num_validation_images for block in blocks] == [0, 10, 0, 10]
    assert all(block.validation_call_seconds is None for block in blocks)
    assert calls[-1] == (10, 3)  # four batches, the last of which is not full


def test_a_long_validation_is_timed_on_one_batch(monkeypatch):
    monkeypatch.setattr(training, "MAX_VALIDATION_SECONDS", 0.0)
    blocks = blocks_of(Task(1), Task(1, True), evaluation_batch_size=3)
    assert [block.num_validation_images for block in blocks] == [0, 3]


def test_the_fixed_cost_of_a_partial_validation_is_recorded_separately(monkeypatch):
    """One batch takes 0.3 s, so three of them are timed together."""
    monkeypatch.setattr(training._Trainee, "_score", lambda _, examples: 0.1 + 0.1 * len(examples.labels))
    blocks = blocks_of(Task(1), Task(1, True), evaluation_batch_size=2)
    validated = blocks[1]
    assert (validated.num_validation_images, validated.validation_seconds) == (6, pytest.approx(0.7))
    assert validated.validation_call_seconds == pytest.approx(0.1)


def test_turns_refuse_rounded_float32(monkeypatch):
    monkeypatch.setattr(keras.ops, "conv", lambda images, *_, **__: images.round(3))
    with pytest.raises(InputError, match="round float32 to tf32"):
        blocks_of(Task(1), variant="float32")
    assert len(blocks_of(Task(1))) == 1
