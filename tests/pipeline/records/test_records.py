import json

import numpy as np
import pytest
from conftest import epoch_records, write_small_run

from pipeline.comparison import finished_runs
from pipeline.errors import InputError
from pipeline.study.schema import RunKey

KEY = RunKey("wide", "float32", 0)


def test_a_run_is_read_as_it_was_written(tmp_path, make_record):
    record = write_small_run(tmp_path, make_record(KEY), 3.0, 2.0, 1.0)
    assert finished_runs.read_record(KEY, tmp_path) == record
    epochs = epoch_records(3.0, 2.0, 1.0)
    epochs[-1] = epochs[-1].model_copy(update={"train_loss": 0.5, "validation_accuracy": 0.9})
    assert finished_runs.read_epochs(record, tmp_path) == epochs


def test_a_kill_while_writing_leaves_no_run(tmp_path, make_record, monkeypatch):
    def killed(*_arguments, **_arrays):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", killed)
    with pytest.raises(KeyboardInterrupt):
        write_small_run(tmp_path, make_record(KEY), 1.0)
    assert not (tmp_path / KEY.directory).exists()
    with pytest.raises(InputError, match=r"record\.json is missing\. Make the run: dvc repro train@0-wide-float32"):
        finished_runs.read_record(KEY, tmp_path)
    monkeypatch.undo()
    write_small_run(tmp_path, make_record(KEY), 1.0)
    assert [path.name for path in (tmp_path / KEY.directory).parent.iterdir()] == ["seed-0"]


@pytest.mark.parametrize("keep", [0, 1, 40, -3])
def test_a_truncated_record_is_named_with_the_command_that_rebuilds_it(tmp_path, make_record, keep):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    path = tmp_path / KEY.directory / "record.json"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError) as caught:
        finished_runs.read_record(KEY, tmp_path)
    assert str(path) in str(caught.value)
    assert "dvc repro --force --single-item train@0-wide-float32" in str(caught.value)


@pytest.mark.parametrize("field", ["scores", "environment", "schema_version"])
def test_a_record_without_a_field_is_damaged(tmp_path, make_record, field):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    path = tmp_path / KEY.directory / "record.json"
    values = json.loads(path.read_text())
    values["schema_version"] = 99 if field == "schema_version" else values["schema_version"]
    if field != "schema_version":
        del values[field]
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="is damaged"):
        finished_runs.read_record(KEY, tmp_path)


def test_a_record_of_an_older_version_says_so(tmp_path, make_record):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    path = tmp_path / KEY.directory / "record.json"
    values = json.loads(path.read_text())
    flat = {name: value for name, value in values.items() if name not in ("times", "memory", "scores")}
    path.write_text(json.dumps(flat | values["times"] | {"final_test_accuracy": 0.9, "schema_version": 7}))
    with pytest.raises(InputError, match=r"schema_version: .* Received: 7\)\. Make the run again: dvc"):
        finished_runs.read_record(KEY, tmp_path)


@pytest.mark.parametrize("keep", [0, 20, -60, "whole lines"])
def test_truncated_epochs_are_named(tmp_path, make_record, keep):
    record = write_small_run(tmp_path, make_record(KEY), 3.0, 2.0, 1.0)
    path = tmp_path / KEY.directory / "epochs.csv"
    text = path.read_text()
    path.write_text("".join(text.splitlines(keepends=True)[:-1]) if keep == "whole lines" else text[:keep])
    with pytest.raises(InputError, match=r"epochs\.csv is damaged"):
        finished_runs.read_epochs(record, tmp_path)


def test_a_record_in_the_place_of_another_is_refused(tmp_path, make_record):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    other = RunKey("wide", "float32", 1)
    (tmp_path / KEY.directory).rename(tmp_path / other.directory)
    with pytest.raises(InputError, match=r"it is the record of runs/wide/float32/seed-0"):
        finished_runs.read_record(other, tmp_path)


def test_a_completed_run_without_an_accuracy_is_damaged(tmp_path, make_record):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    path = tmp_path / KEY.directory / "record.json"
    values = json.loads(path.read_text())
    values["scores"]["test_accuracy"] = None
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"is damaged .*a completed run without test_accuracy"):
        finished_runs.read_record(KEY, tmp_path)


def test_the_predictions_of_a_run_are_read(tmp_path, make_record):
    record = make_record(KEY, final_test_accuracy=0.25)
    write_small_run(tmp_path, record, 1.0)
    predicted = finished_runs.read_predictions(record, tmp_path)
    assert predicted.tolist() == [0] * 25 + [1] * 75
    failed = write_small_run(tmp_path, make_record(KEY, outcome="out_of_memory"), 1.0)
    assert finished_runs.read_predictions(failed, tmp_path).shape == (0,)


@pytest.mark.parametrize("keep", [0, 30, -10])
def test_damaged_predictions_are_named(tmp_path, make_record, keep):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    path = tmp_path / KEY.directory / "predictions.npz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"predictions\.npz is damaged .*train@0-wide-float32"):
        finished_runs.read_predictions(make_record(KEY), tmp_path)


def test_predictions_that_are_not_those_of_the_record_are_refused(tmp_path, make_record):
    write_small_run(tmp_path, make_record(KEY), 1.0)
    with pytest.raises(InputError, match=r"its accuracy is not the 0\.5 of the record"):
        finished_runs.read_predictions(make_record(KEY, final_test_accuracy=0.5), tmp_path)


@pytest.mark.parametrize("seconds", [(0.3, 2.0, 1.0), (3.0, 0.2, 0.1), (3.0, -2.0, 1.0), (3.0, float("nan"), 1.0)])
def test_times_that_are_not_those_of_the_record_are_refused(tmp_path, make_record, seconds):
    """Someone edits epochs.csv so that a variant looks faster."""
    record = write_small_run(tmp_path, make_record(KEY), 3.0, 2.0, 1.0)
    path = tmp_path / KEY.directory / "epochs.csv"
    rows = path.read_text().splitlines()
    for index, value in enumerate(seconds, start=1):
        cells = rows[index].split(",")
        rows[index] = ",".join([*cells[:2], str(value), *cells[3:]])
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(
        InputError,
        match=r"epochs\.csv is damaged \((its times are not|train_seconds: Input should be )",
    ):
        finished_runs.read_epochs(record, tmp_path)


def test_missing_parts_are_missing_and_not_damaged(tmp_path, make_record):
    record = write_small_run(tmp_path, make_record(KEY), 3.0, 2.0)
    for name, read in (
        ("epochs.csv", finished_runs.read_epochs),
        ("predictions.npz", finished_runs.read_predictions),
    ):
        (tmp_path / KEY.directory / name).unlink()
        with pytest.raises(InputError, match=rf"{name} is missing\. Make the run: dvc repro train@0-wide-float32"):
            read(record, tmp_path)
