"""Everything that the numerics stage measures, including its optimizer trials, on a small dense model."""

import json
import os

import yaml
from conftest import small_study
from projects import link_code, stage

from pipeline.numerics.facts import TRIALS, fact_names, sample_names


def test_numerics_writes_exactly_the_results_that_claims_may_use(workspace):
    study = small_study()
    (workspace / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    link_code(workspace)
    done = stage(workspace, "numerics", **os.environ)
    assert done.returncode == 0, done.stderr
    found = json.loads((workspace / "results" / "numerics.json").read_text())
    assert set(found["facts"]) == fact_names(study.benchmarks)
    assert found["facts"]["notebook_split.same_after_restart"]
    assert set(found["samples"]) == sample_names(study.benchmarks)
    assert set(found["gradients"]) == set(study.benchmarks)
    assert [trial["name"] for trial in found["trials"]] == [trial.name for trial in TRIALS]
