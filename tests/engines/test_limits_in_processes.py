"""Runs that take too long, or too much memory, in processes of their own, as `stages.train` makes them."""

import json
import os
import sys

import yaml
from conftest import small_study
from projects import link_code, stage

from pipeline.comparison.finished_runs import read_epochs, read_predictions, read_record, read_speeds
from pipeline.statistics.circumstances import fault
from pipeline.store.plan import stopped_once
from pipeline.study.schema import RunKey

KEY = RunKey("wide", "float32", 0)
TRAIN = ("train", "--benchmark", "wide", "--run", "float32/0")


def study(**recipe):
    return small_study({"units": 8} | recipe, seeds=[0])


def run(folder, study, *words):
    """Run a stage on this study and return its output."""
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    if not (folder / "pipeline").exists():
        link_code(folder)
    done = stage(folder, *words, **os.environ)
    assert done.returncode == 0, done.stderr  # in which an engine may say more
    return done.stdout


def test_a_run_that_is_too_slow_keeps_its_epochs_and_is_retried_once(workspace):
    endless = study(num_epochs=100_000).model_copy(update={"max_run_seconds": 10.0})
    assert " · too slow" in run(workspace, endless, *TRAIN)
    record = read_record(KEY, workspace)
    assert (record.outcome, record.times.max_run_seconds) == ("too_slow", 10.0)
    assert 10 <= record.times.run_seconds < 20
    assert not read_predictions(record, workspace).size
    assert record.num_epochs == len(read_epochs(record, workspace)) > 0
    assert record.scores.test_accuracy is None
    assert not list(workspace.glob(".cache/**/*.npz"))[1:], "there is nothing to go on with but the predictions"
    assert " · too slow" in run(workspace, endless, *TRAIN), "tried again once"
    assert read_record(KEY, workspace).times.num_stops == 2
    assert "0 of 1 runs to make" in run(workspace, endless, *TRAIN)
    compared = run(workspace, endless, "compare")
    assert "It took longer than max_run_seconds allows, and nothing is compared with it: runs/wide/float32" in compared
    assert "don't count" not in compared


def test_a_stopped_speed_measurement_is_retried_once_and_gives_no_ratio_if_it_is_stopped_again(workspace):
    """No process builds a model of this width within the limit."""
    slow = study().model_copy(update={"max_run_seconds": 0.01})
    measure = ("speed", "--benchmark", "wide")
    for num_stops in (1, 2, 2):
        printed = run(workspace, slow, *measure)
        path = workspace / "results" / "speed" / "wide" / "measurement.json"
        assert json.loads(path.read_text())["num_stops"] == num_stops
    assert "is measured already" in printed
    found = read_speeds(slow, "wide", workspace)
    assert (fault(found.blocks, "float32"), found.memory_ratio("float32", "mixed").value) == ("too_slow", None)
    assert stopped_once(slow) == []


def test_a_model_too_large_for_memory_is_recorded_as_out_of_memory(workspace):
    """Weights of two tebibytes, which are refused before the first step, after ten seconds on TensorFlow."""
    large = small_study({"units": 2**33}, seeds=[0], variants={"float32": {"policy": "float32", "batch_multiplier": 1}})
    assert " · out of memory" in run(workspace, large, *TRAIN)
    record = read_record(KEY, workspace)
    assert (record.outcome, record.num_parameters, record.initial_weights_sha256) == ("out_of_memory", None, None)
    assert json.loads((workspace / KEY.directory / "record.json").read_text())["num_parameters"] is None


def test_a_model_too_large_for_memory_stops_no_other_stage(workspace, monkeypatch, capsys):
    """The check of a user's model only mentions it, and numerics covers the other benchmark."""
    from pipeline.advice import fitness

    large = {"name": "mine:build", "source": "mine.py"}
    (workspace / "mine.py").write_text(
        "import keras\ndef build(spec):\n    return keras.Sequential([keras.Input(spec.image_shape),"
        "keras.layers.Flatten(), keras.layers.Dense(2**33), keras.layers.Dense(spec.num_classes)])\n"
    )
    both = study(model=large)
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(sys, "path", [*sys.path])
    fitness.check(both, "wide", (8, 8, 1), 10)
    assert "float32 does not fit into memory here" in capsys.readouterr().out
    assert "wide does not fit into memory here" in run(workspace, both, "numerics")
    found = json.loads((workspace / "results" / "numerics.json").read_text())
    assert list(found["gradients"]) == ["narrow"]
    assert found["trials"]
