"""Checkpoints: how one is found, and what happens to one that can't be used."""

import keras
import numpy as np
import pytest
from conftest import ENGINE, make_run, small_study

from pipeline.comparison.finished_runs import read_epochs
from pipeline.records.run_record import Disturbance
from pipeline.study.schema import RunKey
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.so_far import CHECKPOINT, Progress

KEY = RunKey("wide", "float32", 0)


class Interrupted(BaseException):
    """Raised when a process has saved its first checkpoint."""


def train(workspace, ending: bool = False):
    save = Checkpoint.save

    def save_and_end(*arguments):
        save(*arguments)
        raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        if ending:
            patch.setattr(Checkpoint, "save", save_and_end)
        return make_run(workspace, small_study({"num_epochs": 3}), KEY)


def saved(workspace):
    return sorted((workspace / KEY.directory / CHECKPOINT).rglob("*"))


def test_an_interrupted_run_resumes_after_its_last_whole_epoch(workspace):
    for _ in range(2):
        with pytest.raises(Interrupted):
            train(workspace, ending=True)
    assert not (workspace / KEY.directory / "record.json").exists()
    record = train(workspace)
    assert (record.outcome, record.resumed) == ("completed", True)
    assert [epoch.since_start for epoch in read_epochs(record, workspace)] == [1, 1, 1]
    assert not saved(workspace)


def test_a_checkpoint_is_used_only_on_the_machine_that_saved_it(workspace, monkeypatch):
    with pytest.raises(Interrupted):
        train(workspace, ending=True)
    monkeypatch.setattr("pipeline.machine.environment.cpu_model", lambda: "another")
    record = train(workspace)
    assert not record.resumed
    assert not saved(workspace)


@pytest.mark.parametrize("size", [0, 3000])
def test_a_truncated_checkpoint_is_reported_and_the_run_starts_over(workspace, capsys, size):
    with pytest.raises(Interrupted):
        train(workspace, ending=True)
    (path,) = (path for path in saved(workspace) if path.suffix == ".npz")
    path.write_bytes(path.read_bytes()[:size])
    record = train(workspace)
    assert not record.resumed
    assert f"{path} is damaged" in capsys.readouterr().err


def test_a_restored_checkpoint_continues_the_random_state(workspace):
    """Dropout draws from a state that belongs to the model: the same mask must not come twice."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    model.compile("adam", loss="mse", jit_compile=ENGINE == "jax")
    model.optimizer.build(model.trainable_variables)
    images, targets = np.ones((8, 64), np.float32), np.ones((8, 2), np.float32)
    kept = Checkpoint(workspace / KEY.directory / CHECKPOINT, ())
    model.train_on_batch(images, targets)
    kept.save(model, Progress([], Disturbance()))
    first = [float(model.train_on_batch(images, targets)) for _ in range(3)]
    kept.restore(model)
    assert [float(model.train_on_batch(images, targets)) for _ in range(3)] == first


def test_the_worse_disturbance_of_two_processes_counts():
    first, second = Disturbance(other_cpu_share=0.3), Disturbance(other_cpu_share=0.1, num_gpu_processes=2)
    assert first.worst(second) == Disturbance(other_cpu_share=0.3, num_gpu_processes=2)
    assert first.worst(None) == first
