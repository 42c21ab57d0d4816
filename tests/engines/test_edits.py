"""Edits while a study runs: every run matches what it read, no page shows another study, and no valid run is lost."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import SPEED
from endings import start
from projects import PROFILE, USER_ENVIRONMENT, commit, dense_study, edit_params, make_project, run

LEARNING_RATE = ("benchmarks", "small_dense", "optimizer", "learning_rate")
STUDY = dense_study(num_epochs=3) | {"datasets": {"mnist": {"bundled": "mnist"}}, "numerics": "facts"}
STUDY["benchmarks"]["small_dense"]["split"] = {"num_train_examples": 4000, "num_validation_examples": 1000}
STUDY["benchmarks"]["small_dense"] |= {"batch_size": 100, "evaluation_batch_size": 1000}
MODEL, SCORE = Path("pipeline/models/dense.py"), Path("pipeline/training/evaluation.py")
WIDER = ("layers.Dense(units, activation", "layers.Dense(units + 1, activation")
WORSE = ("return float(loss),", "return float(loss) + 100,")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("edits") / "project"
    make_project(folder, STUDY, PROFILE | {"seeds": [0, 1]}, without=("docs/", "tests/"))
    assert command(folder, "download", "--dataset", "mnist").returncode == 0
    return folder


@pytest.fixture
def project(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "project", symlinks=True))


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-m", f"stages.{words[0]}", *words[1:], env=USER_ENVIRONMENT)


def edited_at(folder: Path, words: str, edit: Callable[[], object], *stage: str) -> tuple[int, str]:
    """Run a stage, and edit when it has printed `words`; return its exit status and what it printed."""
    environment = USER_ENVIRONMENT | {"PYTHONUNBUFFERED": "1"}
    with start(folder, environment, sys.executable, "-m", f"stages.{stage[0]}", *stage[1:]) as process:
        said = ""
        for line in process.stdout:
            said += line
            if re.search(words, line):
                edit()
                words = "$^"
    assert words == "$^", said
    return process.returncode, said


TRAIN = ("train", "--benchmark", "small_dense")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def set_learning_rate(values: dict) -> None:
    values["benchmarks"]["small_dense"]["optimizer"]["learning_rate"] = 0.125


def kept(folder: Path) -> list[tuple[dict, dict]]:
    """The identity and the record of every run in the store."""
    folders = [path.parent for path in folder.glob(".cache/kept/*/record.json")]
    return [
        tuple(json.loads((each / f"{name}.json").read_text()) for name in ("identity", "record")) for each in folders
    ]


def num_to_make(said: str) -> str:
    return re.search(r"(\d+ of \d+) runs to make", said)[1]


def test_a_changed_learning_rate_retrains_every_run_and_keeps_the_old_ones(project):
    status, said = edited_at(project, "run 1 of 4", lambda: edit_params(project, set_learning_rate), *TRAIN)
    assert (status, len(kept(project))) == (2, 4)
    assert "params.yaml was edited" in said
    done = command(project, *TRAIN)
    assert (done.returncode, num_to_make(done.stdout)) == (0, "4 of 4")
    edit_params(project, lambda values: values.update(yaml.safe_load(yaml.safe_dump(STUDY | PROFILE)), seeds=[0, 1]))
    assert num_to_make(command(project, *TRAIN).stdout) == "0 of 4"


def test_an_edit_that_affects_no_run_lets_the_stage_succeed(project):
    reworded = lambda: edit_params(project, lambda values: values.update(description="in other words"))  # noqa: E731
    status, said = edited_at(project, "run 1 of 4", reworded, *TRAIN)
    assert status == 0, said


@pytest.mark.parametrize(
    ("path", "edit", "found"),
    [
        (MODEL, WIDER, lambda of, record: (of["model"][str(MODEL)], record["num_parameters"])),
        (SCORE, WORSE, lambda of, record: (of["code"][str(SCORE)], record["scores"]["test_loss"] > 50)),
    ],
    ids=["model code", "training code"],
)
def test_a_run_is_identified_by_the_code_that_it_read(project, path, edit, found):
    status, said = edited_at(project, "run 1 of 4", lambda: replace(project / path, *edit), *TRAIN)
    assert status == 2
    assert f"error: {path} was edited while" in said
    done = command(project, *TRAIN)
    assert (done.returncode, num_to_make(done.stdout)) == (0, "4 of 4")
    by_code = {found(identity["of"], record) for identity, record in kept(project)}
    assert len(by_code) == len({digest for digest, _ in by_code}) == 2, "all runs of one code are alike"


def test_a_speed_measurement_ends_when_the_model_is_edited_and_a_rerun_starts_it_over(project):
    edit_params(project, lambda values: values.update(speed=SPEED | {"budget_seconds": 20}))
    stage = ("speed", "--benchmark", "small_dense")
    edited = lambda: replace(project / MODEL, *WIDER)  # noqa: E731
    status, said = edited_at(project, "every variant started once", edited, *stage)
    assert status == 2
    assert f"error: {MODEL} was edited while small_dense was made. What is finished stays." in said
    assert command(project, *stage).returncode == 0
    folder = project / "results/speed/small_dense"
    rows = [line.split(",") for line in (folder / "blocks.csv").read_text().splitlines()]
    named = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    first = {row["loss"] for row in named if (row["turn"], row["variant"]) == ("0", "float32")}
    assert len(first) == 1, "the warm-up of every launch trains alike"
    assert command(project, *stage).stdout == "small_dense: its speed is measured already\n"


def test_repro_catches_up_with_every_edit_of_params_yaml(project):
    """Even if DVC recorded the edit as what the stages had read."""
    edit_params(project, lambda values: values["benchmarks"]["small_dense"].update(num_epochs=2))
    commit(project)
    edited = lambda: edit_params(project, lambda values: values["seeds"].append(2))  # noqa: E731
    status, said = edited_at(project, "run 2 of 4", edited, "repro")
    assert status == 2
    assert "what to do: Run `make repro` again: it makes what is missing" in said
    done = command(project, "repro")
    assert done.returncode == 0, done.stdout + done.stderr
    assert num_to_make(done.stdout) == "2 of 6"
    edit_params(project, set_learning_rate)
    assert run(project, sys.executable, "-m", "dvc", "commit", "--force", env=USER_ENVIRONMENT).returncode == 0
    done = command(project, "repro")
    assert done.returncode == 0, done.stdout + done.stderr
    assert num_to_make(done.stdout) == "6 of 6"
    assert "runs/small_dense" not in command(project, "compare").stdout
