"""Steps of TensorFlow that are profiled, in processes of their own."""

import csv
from argparse import Namespace

import pytest
import yaml
from conftest import benchmark, small_study

from pipeline.records.step_profile import STEP_PROFILE, ProfiledKind, read_step_profile
from pipeline.study.schema import Study
from stages import profile


def profiled(folder, monkeypatch, **changes) -> tuple[Study, list[ProfiledKind]]:
    margins = {"baseline": "float32", "num_warmup_epochs": 1, "margin_pp": {"wide": 1.0}}
    study = small_study(benchmarks={"wide": benchmark(units=16)}, comparison=margins, **changes)
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    monkeypatch.chdir(folder)
    profile.main(Namespace())
    return study, read_step_profile(folder)


def test_a_step_of_tensorflow_is_profiled_under_each_policy_in_processes_of_their_own(workspace, monkeypatch):
    study, rows = profiled(workspace, monkeypatch)
    assert {row.policy for row in rows} == ({"float32", "mixed_bfloat16"} if study.engine == "tensorflow" else set())
    assert {row.batch_size for row in rows} <= {16}
    for policy in {row.policy for row in rows}:
        of_policy = [row for row in rows if row.policy == policy]
        assert {"matrix product", "optimizer and loss scale"} <= {row.kind for row in of_policy}
        assert sum(row.share for row in of_policy) == pytest.approx(1, abs=0.001)


def test_a_study_of_facts_alone_profiles_nothing(workspace, monkeypatch):
    assert profiled(workspace, monkeypatch, numerics="facts")[1] == []
    with STEP_PROFILE.open(newline="") as file:
        assert next(csv.reader(file)) == list(ProfiledKind.model_fields)
