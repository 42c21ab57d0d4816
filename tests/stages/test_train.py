"""Which runs `stages.train` makes, and which it refuses."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import stage

from pipeline.errors import InputError
from pipeline.machine import environment
from stages import train


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    return tmp_path


def test_a_run_outside_the_study_is_refused(folder):
    done = stage(folder, "train", "--benchmark", "mnist_dense", "--variant", "float33", "--seed", "0")
    assert done.returncode == 2
    assert "--variant: must be one of float32, float32_2x," in done.stderr


def test_a_combination_the_study_leaves_out_ends_at_once(folder):
    """DVC has its inputs written, which say so; by hand there are none, and it is refused."""
    run = Path("runs", "cifar100_efficientnet_b0", "mixed_bfloat16", "seed-0")
    arguments = ["--benchmark", "cifar100_efficientnet_b0", "--variant", "mixed_bfloat16", "--seed", "0"]
    done = stage(folder, "train", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not name cifar100_efficientnet_b0: nothing to run." in done.stderr
    inputs = folder / "inputs" / f"{run}.json"
    inputs.parent.mkdir(parents=True)
    inputs.write_text(json.dumps({"left_out": "nothing to run."}))
    done = stage(folder, "train", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to run.\n", "")
    assert [path.name for path in (folder / run).iterdir()] == ["left_out.txt"]


def test_a_study_of_other_packages_than_those_installed_is_refused(folder, monkeypatch):
    monkeypatch.setattr(environment, "IMAGE", folder / "none.json")
    assert environment.installed_runtime() in ("cpu", None)  # by .venv
    (folder / "image.json").write_text('{"target": "cuda"}')
    monkeypatch.setattr(environment, "IMAGE", folder / "image.json")
    monkeypatch.chdir(REPOSITORY)
    with pytest.raises(InputError, match="the study wants cpu, and the packages here are those of cuda"):
        train.main(Namespace(benchmark="mnist_dense", variant="float32", seed=0))
