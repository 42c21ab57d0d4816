import json

import pytest
from conftest import planned_record, write_small_run

from pipeline.comparison import finished_runs
from pipeline.errors import InputError
from pipeline.study.schema import RunKey

KEY = RunKey("wide", "float32", 0)


def test_a_record_of_an_older_version_is_refused(tmp_path):
    write_small_run(tmp_path, planned_record(KEY), 1.0)
    path = tmp_path / KEY.directory / "record.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"schema_version": 7}))
    with pytest.raises(InputError, match=r"schema_version: .* Received: 7\)\. Make the run: dvc"):
        finished_runs.read_record(KEY, tmp_path)


def test_a_record_in_the_folder_of_another_run_is_refused(tmp_path):
    write_small_run(tmp_path, planned_record(KEY), 1.0)
    other = RunKey("wide", "float32", 1)
    (tmp_path / KEY.directory).rename(tmp_path / other.directory)
    with pytest.raises(InputError, match=r"it is the record of runs/wide/float32/seed-0"):
        finished_runs.read_record(other, tmp_path)


def test_predictions_are_read_and_are_empty_for_a_failed_run(tmp_path):
    record = planned_record(KEY, scores={"test_accuracy": 0.25})
    write_small_run(tmp_path, record, 1.0)
    predicted = finished_runs.read_predictions(record, tmp_path)
    assert predicted.tolist() == [0] * 250 + [1] * 750
    failed = write_small_run(tmp_path, planned_record(KEY, outcome="out_of_memory"), 1.0)
    assert finished_runs.read_predictions(failed, tmp_path).shape == (0,)
