"""A small study under a real DVC: which runs a change repeats, and that DVC's commands and interruptions lose none."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import benchmark
from endings import SECONDS, gone, start, wait_for
from projects import PROFILE, USER_ENVIRONMENT, commit, dense_study, edit_params, git, make_project

STUDY = dense_study(num_epochs=2) | {"datasets": {"mnist": {"bundled": "mnist"}}}
STUDY["benchmarks"]["small_dense"]["evaluation_batch_size"] = 1000
STUDY["benchmarks"]["other_dense"] = benchmark(units=4, image_size=28)
STUDY["comparison"]["margin_pp"]["other_dense"] = 1.0
DVC = [sys.executable, "-m", "dvc"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A clone of the project, the runs of whose study are made and committed."""
    folder = tmp_path_factory.mktemp("clone") / "project"
    make_project(folder, STUDY, PROFILE | {"seeds": [0, 1]}, without=("docs/", "tests/"))
    assert made(dvc(folder, "repro", "train")) == {"small_dense": 4, "other_dense": 4}
    commit(folder)
    return folder


@pytest.fixture
def project(finished) -> Iterator[Path]:
    """The finished project, put back as it was after the test."""
    yield finished
    git(finished, "checkout", "--quiet", "--force", "main")
    git(finished, "reset", "--quiet", "--hard")
    dvc(finished, "checkout", "--force", "train")


def dvc(folder: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run([*DVC, *words], cwd=folder, env=USER_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def made(said: str) -> dict[str, int]:
    """Return how many runs of each benchmark the stages had to make, by their output."""
    return {name: int(number) for name, number in re.findall(r"^(\w+): (\d+) of \d+ runs to make$", said, re.MULTILINE)}


def runs(folder: Path) -> set[str]:
    return {"/".join(path.parts[-4:-1]) for path in folder.glob("runs/*/*/*/record.json")}


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_a_new_seed_trains_only_its_own_runs_and_a_removed_one_trains_nothing(project):
    edit_params(project, lambda values: values["seeds"].append(2))
    assert made(dvc(project, "repro", "train")) == {"small_dense": 2, "other_dense": 2}
    edit_params(project, lambda values: values["seeds"].pop(0))
    edit_params(project, lambda values: values["variants"].pop("mixed"))
    assert made(dvc(project, "repro", "train")) == {"small_dense": 0, "other_dense": 0}
    assert runs(project) == {f"{name}/float32/seed-{seed}" for name in STUDY["benchmarks"] for seed in (1, 2)}
    git(project, "checkout", "--", "params.yaml")
    assert made(dvc(project, "repro", "train")) == {"small_dense": 0, "other_dense": 0}, "the store has them"


@pytest.mark.parametrize(
    ("words", "seed"), [([], 10), (["--temp"], 20)], ids=["in the workspace", "in a folder of its own"]
)
def test_a_dvc_experiment_neither_loses_nor_repeats_a_run(project, words, seed):
    edit_params(project, lambda values: values["seeds"].append(seed))
    dvc(project, "repro", "train@small_dense")  # neither committed nor known to git's dvc.lock
    git(project, "checkout", "--", "params.yaml")
    said = dvc(project, "exp", "run", *words, "-S", f"seeds=[0,1,{seed},{seed + 1}]", "train@small_dense")
    assert made(said) == {"small_dense": 2}


def test_queued_experiments_make_each_run_once(project):
    for seed in (5, 6):
        dvc(project, "exp", "run", "--queue", "-S", f"seeds=[0,{seed}]", "-n", f"seed-{seed}", "train@small_dense")
    # Not captured: a worker of DVC's may live on for long after the last experiment, and keeps the output open.
    start = [*DVC, "queue", "start", "-j", "2"]
    subprocess.run(
        start, cwd=project, env=USER_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    wait_for(lambda: "Running" not in (status := dvc(project, "queue", "status")) and "Queued" not in status, 120)
    assert dvc(project, "queue", "status").count("Success") == 2
    edit_params(project, lambda values: values.update(seeds=[0, 5, 6]))
    assert made(dvc(project, "repro", "train@small_dense")) == {"small_dense": 0}


def test_a_clone_pulls_pushed_results_and_runs_nothing(project, tmp_path):
    dvc(project, "remote", "add", "--default", "--local", "shelf", str(tmp_path / "shelf"))
    dvc(project, "push", "--quiet")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(project), str(clone))
    shutil.copy(project / ".dvc" / "config.local", clone / ".dvc")
    dvc(clone, "pull", "--quiet", "train")
    assert runs(clone) == runs(project)
    assert made(dvc(clone, "repro", "train")) == {}
    append(clone / "pipeline" / "training" / "clock.py", "\n# in other words\n")
    assert made(dvc(clone, "repro", "train@small_dense")) == {"small_dense": 0}, "their identity came along"


@pytest.mark.parametrize(
    ("whom", "how"),
    [
        ("all", signal.SIGINT),  # Ctrl-C
        ("dvc", signal.SIGKILL),
        ("the stage", signal.SIGTERM),
    ],
)
def test_ending_any_process_leaves_none_running_and_loses_no_finished_run(project, whom, how):
    """The runs take longer here, and the first of the two that are missing is ended midway."""
    edit_params(project, lambda values: values["benchmarks"]["small_dense"].update(num_epochs=60))
    dvc(project, "repro", "train@small_dense")
    git(project, "checkout", "--", "dvc.lock")
    weights = digests(project)
    for folder in (project / ".cache" / "kept").iterdir():
        identity = (folder / "identity.json").read_text()
        if "mixed" in identity and '"num_epochs": 60' in identity:
            shutil.rmtree(folder)
    shutil.rmtree(project / "runs" / "small_dense" / "mixed")
    with start(project, USER_ENVIRONMENT | {"PYTHONUNBUFFERED": "1"}, *DVC, "repro", "train@small_dense") as process:
        wait_for(lambda: has_checkpoint(project), 60, process)
        others = process.children(recursive=True)
        stage = next(each for each in others if "stages.train" in each.cmdline())
        if whom == "all":
            os.killpg(process.pid, how)
        else:
            (stage if whom == "the stage" else process).send_signal(how)
        said = process.stdout.read()  # until every process has closed it
        wait_for(lambda: all(map(gone, others)), SECONDS)
    assert "Traceback" not in said
    assert runs(project) >= {f"small_dense/float32/seed-{seed}" for seed in (0, 1)}
    assert "small_dense/mixed/seed-0" not in runs(project)
    assert made(dvc(project, "repro", "train@small_dense")) == {"small_dense": 2}
    assert digests(project) == weights
    assert '"resumed": true' in (project / "runs/small_dense/mixed/seed-0/record.json").read_text()


def has_checkpoint(folder: Path) -> bool:
    return any(not path.stem.endswith(".partial") for path in folder.glob(".cache/unfinished/*/checkpoint/*.npz"))


def digests(folder: Path) -> dict[str, str]:
    """The final weights of each run of the benchmark."""
    return {
        str(path): re.findall(r'"final_weights_sha256": "(\w+)"', path.read_text())[0]
        for path in folder.glob("runs/small_dense/*/*/record.json")
    }
