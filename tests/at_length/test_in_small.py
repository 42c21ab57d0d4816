"""A few steps of the studies for accelerators through every stage, as `make repro PROFILE=paper SMALL=1` takes them."""

import json
import sys
from pathlib import Path

import pytest
from projects import STUB_ENVIRONMENT, commit, copy_tree, git, run

from pipeline.comparison.finished_runs import read_record
from pipeline.machine.left_out import study_as_made


@pytest.mark.parametrize(
    ("profile", "benchmark", "image_size"),
    [("paper", "cifar100_efficientnet_b0", 224), ("gpu", "cifar100_resnet9", 32)],
)
def test_a_study_runs_from_end_to_end(tmp_path, profile, benchmark, image_size):
    project = tmp_path / "project"
    copy_tree(project, without=("tests/",))
    (project / ".venv").symlink_to(Path(sys.prefix))
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project)
    environment = STUB_ENVIRONMENT | {"PYTHONPATH": str(project)}
    command = ["make", "--no-print-directory", "study", f"PROFILE={profile}", "SMALL=1"]
    done = run(project, *command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    study = study_as_made(project)
    assert (study.name, study.benchmarks[benchmark].image_size) == (profile, image_size)
    outcomes = {str(key): read_record(key, project).outcome for key in study.runs()}
    assert set(outcomes.values()) == {"completed"}, outcomes
    verdicts = json.loads((project / "results" / "verdicts.json").read_text())["judgements"]
    assert "not this recipe" in {verdict["verdict"] for verdict in verdicts}
    assert (project / "results" / "report.html").stat().st_size > 10_000
