"""The raw records of the H200 are a study's: its params.yaml plans each of them."""

import pytest
from conftest import REPOSITORY

from pipeline.comparison.finished_runs import read_circumstances, read_speeds
from pipeline.records.run_record import RunRecord, planned
from pipeline.study.schema import Study, load_study

H200 = REPOSITORY / "docs" / "h200"


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(H200 / "params.yaml")


def test_each_run_was_made_as_the_study_plans_it(study):
    paths = sorted(H200.glob("runs/*/*/*/record.json"))
    keys = set(study.runs())
    for path in paths:
        record = RunRecord.model_validate_json(path.read_bytes())
        assert path == H200 / record.key.directory / "record.json"
        assert record.key in keys
        assert planned(study, record.key) == record.planned
    assert len(paths) == 40


def test_its_speeds_are_those_of_the_variants(study):
    speeds = read_speeds(study, "mnist_dense", H200)
    assert len(speeds.num_turns) == 2
    assert set(study.variants_of("mnist_dense")) < set(speeds.variants)
    assert read_circumstances("mnist_dense", H200).schema_version == 1
