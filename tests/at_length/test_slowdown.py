"""Drift in time on a real Slurm: a commit makes one variant slower, and the campaigns after it notice."""

import json
import os
import subprocess
import sys

import pytest
from cluster.campaigns import CLUSTER, campaign, finish, output, wait_for
from conftest import benchmark
from projects import PROFILE, dense_study, git, make_project

from bench.fake_datasets import write_fake_tfds

# Layers that change no value and cost time; so many of them take about as long as the rest of a step.
NUM_PLANTED = int(os.environ.get("NUM_PLANTED_LAYERS", "60"))
PLANT = f"""
    for _ in range({NUM_PLANTED} if keras.config.dtype_policy().name != "float32" else 0):
        x = layers.Activation("relu")(x)
"""
SECONDS = 90


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A clone of the project with a small study whose steps take long enough to be timed."""
    folder = tmp_path_factory.mktemp("slowdown") / "project"
    split = {"num_train_examples": 500, "num_validation_examples": 50, "shuffle_seed": 7}
    sizes = {"units": 1024, "image_size": 28, "batch_size": 50, "evaluation_batch_size": 50, "split": split}
    study = dense_study(2) | {"speed": {"budget_seconds": SECONDS, "target_half_width": 0.001}}
    study["benchmarks"] = {"small_dense": benchmark(**sizes)}
    make_project(folder, study, PROFILE | {"seeds": [0, 1, 2]}, without=("docs/",))
    (folder.parent / "cluster.yaml").write_text(json.dumps(CLUSTER | {"memory": "3600M"}))
    for name, value in (("user.name", "t"), ("user.email", "t@example.org")):
        git(folder, "config", name, value)
    write_fake_tfds(folder.parent / "tfds", ["mnist"], num_train=600)
    return folder


@pytest.mark.usefixtures("slurm")
def test_a_slowdown_is_confirmed(project):
    assert campaign(project, "c1").returncode == 0
    first = finish(project, "c1")
    assert first["exit_code"] == 30
    assert "has no baseline" in first["reasons"][0]
    git(project, "merge", "--quiet", "campaign/c1")
    environment = os.environ | {"PYTHONPATH": str(project)}
    subprocess.run([sys.executable, "-m", "stages.pin", "--campaign", "c1"], cwd=project, env=environment, check=True)
    model = project / "pipeline" / "models" / "dense.py"
    before = "    x = layers.Dense(num_classes)(x)\n"
    assert before in model.read_text()
    model.write_text(model.read_text().replace(before, PLANT.lstrip("\n") + before))
    git(project, "add", "-A")
    git(project, "commit", "--quiet", "-m", "The baseline is c1, and a regression")

    assert campaign(project, "c2").returncode == 0
    finish(project, "c2")
    found = json.loads((project / ".campaigns" / "c2" / "status.json").read_text())
    print(found["findings"])
    assert found["exit_code"] == 10, found
    assert any(says_slower(finding) and "for the first time" in finding for finding in found["findings"])
    wait_for((project / ".campaigns" / "c2-again" / "status.json").exists, 900)
    again = finish(project, "c2-again")
    print(again["findings"])
    assert again["exit_code"] == 20
    assert any(says_slower(finding) and "for the second time" in finding for finding in again["findings"])
    assert output("git", "-C", str(project), "status", "--porcelain") == ""


def says_slower(finding: str) -> bool:
    return finding.startswith("small_dense mixed: training time over the baseline's 1.")
