"""The page docs/your-own-model.md, run as it is written but for the number of seeds, and what follows an edit.

Beside that study, one that `make advise` makes.
"""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from fake_datasets import write_fake_tfds
from projects import USER_ENVIRONMENT, copy_tree


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tfds")
    write_fake_tfds(folder, "cifar10", num_train=2500, num_test=100)
    return USER_ENVIRONMENT | {"TFDS_DATA_DIR": str(folder)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, environment) -> Path:
    folder = tmp_path_factory.mktemp("own") / "project"
    copy_tree(folder)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    page = (REPOSITORY / "docs" / "your-own-model.md").read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        one_seed = block.replace("seeds: [0, 1, 2]", "seeds: [0]")
        packages_are_here = re.sub("^make repro$", "make --no-print-directory study", one_seed, flags=re.MULTILINE)
        packages_are_here = re.sub(
            "^make publish TO=", "python -m stages.publish --to ", packages_are_here, flags=re.MULTILINE
        )
        run(folder, environment | {"PYTHONPATH": str(folder)}, "bash", "-e", "-c", packages_are_here)
    return folder


def run(folder: Path, environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_run_is_made_and_the_report_is_published(finished):
    records = [json.loads(path.read_text()) for path in sorted(finished.glob("runs/*/*/*/record.json"))]
    assert len(records) == 4
    assert {record["outcome"] for record in records} == {"completed"}
    verdicts = json.loads((finished / "results" / "verdicts.json").read_text())["judgements"]
    assert [verdict["id"] for verdict in verdicts] == ["mixed-is-faster"]
    html = (finished / "results" / "report.html").read_text()
    for text in ("networks.rows:build", "What we expect"):
        assert text in html
    with zipfile.ZipFile(finished / "docs" / "reports" / "mine" / "study.zip") as archive:
        assert not [name for name in archive.namelist() if name.endswith(".py")]


def test_advice_is_asked_for_edited_made_and_asked_for_again(finished, environment):
    environment = environment | {"PYTHONPATH": str(finished)}
    asked = ["--model", "networks.rows:build", "--source", "../networks", "--arguments", '{"size": 8}']
    asked += ["--dataset", "cifar10", "--batch", "50"]
    compose = "from argparse import Namespace; from stages import advise; "  # the study, and no runs
    compose += (
        "advise.compose_study(Namespace(model='networks.rows:build', source='../networks', arguments={'size': 8}, "
    )
    compose += "dataset='cifar10', batch=50, image_size=None))"
    run(finished, environment, sys.executable, "-c", compose)
    study = yaml.safe_load((finished / "params.yaml").read_text())
    study["benchmarks"]["yours"]["split"] |= {"num_train_examples": 200, "num_validation_examples": 100}
    short = {"seeds": [0], "speed": {"budget_seconds": 1, "target_half_width": 0.05}}
    (finished / "params.yaml").write_text(yaml.safe_dump(study | short))
    printed = run(finished, environment, sys.executable, "-m", "stages.advise", *asked)
    assert printed.endswith(f"Report: {finished / 'results' / 'report.html'}\n")
    assert "networks.rows:build" in (finished / "results" / "report.html").read_text()
    records = {path: path.stat().st_mtime for path in finished.glob("runs/yours/*/*/record.json")}
    assert len(records) == len([variant for variant in study["variants"].values() if variant["policy"] != "tf32"])
    run(finished, environment, sys.executable, "-m", "stages.advise", *asked)
    assert {path: path.stat().st_mtime for path in records} == records
