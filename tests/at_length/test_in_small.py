"""A few steps of the sources' recipes through every stage, as `make repro PROFILE=paper SMALL=1` takes them."""

import json
import subprocess
import sys
from pathlib import Path

from projects import STUB_ENVIRONMENT, commit, copy_tree, git

from pipeline.comparison.finished_runs import read_record
from pipeline.machine.left_out import study_as_made


def test_paper_runs_from_end_to_end(tmp_path):
    project = tmp_path / "project"
    copy_tree(project, without=("tests/",))
    (project / ".venv").symlink_to(Path(sys.prefix))
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project)
    environment = STUB_ENVIRONMENT | {"PYTHONPATH": str(project)}
    command = ["make", "--no-print-directory", "study", "PROFILE=paper", "SMALL=1"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    study = study_as_made(project)
    assert (study.name, study.benchmarks["cifar100_efficientnet_b0"].image_size) == ("paper", 224)
    outcomes = {str(key): read_record(key, project).outcome for key in study.runs()}
    assert set(outcomes.values()) == {"completed"}, outcomes
    verdicts = json.loads((project / "results" / "verdicts.json").read_text())["judgements"]
    assert "not this recipe" in {verdict["verdict"] for verdict in verdicts}
    assert (project / "results" / "report.html").stat().st_size > 10_000
