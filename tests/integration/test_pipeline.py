"""The whole pipeline under DVC, as a user runs it: a small study on TFDS files with fake images, no network."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import yaml
from conftest import benchmark
from projects import PROFILE, commit, dense_study, git, make_project

from bench.fake_datasets import write_fake_tfds

STUDY = dense_study(num_epochs=40)
STUDY["datasets"]["cifar100"] = {"tfds": "cifar100"}
STUDY["benchmarks"]["small_efficientnet"] = benchmark(units=8, image_size=32, num_epochs=2, dataset="cifar100") | {
    "model": {"name": "efficientnet", "depth": 0.1, "source": "pipeline/models/efficientnet.py"}
}
STUDY["variants"]["mixed"]["benchmarks"] = ["small_dense"]
STUDY["comparison"]["margin_pp"]["small_efficientnet"] = 1.0
RUNNING = re.compile(r"^Running stage '([^']+)'", re.MULTILINE)


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tfds")
    write_fake_tfds(folder)
    here = str(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONWARNINGS")}
    return kept | {"PATH": here + os.pathsep + os.environ["PATH"], "TFDS_DATA_DIR": str(folder)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, environment) -> Path:
    """A clone of the project with a small study that has been run once."""
    folder = tmp_path_factory.mktemp("clone") / "project"
    make_project(folder, STUDY, PROFILE)
    done = dvc(folder, environment, "repro")
    assert len(RUNNING.findall(done)) == 2 + 2 + 1 + 1 + 4 + 5, done
    commit(folder)
    return folder


@pytest.fixture
def clone(finished, tmp_path) -> Path:
    """The finished project, put back as it was after the test."""
    kept = tmp_path / "inputs"
    shutil.copytree(finished / "inputs", kept)
    yield finished
    git(finished, "checkout", "--quiet", "--", ".")
    git(finished, "clean", "--quiet", "-fd")
    shutil.rmtree(finished / "inputs")
    shutil.copytree(kept, finished / "inputs")


def dvc(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def would_run(folder: Path, environment: dict[str, str], *targets: str) -> set[str]:
    return set(RUNNING.findall(dvc(folder, environment, "repro", "--dry", *targets)))


def would_train(folder: Path, environment: dict[str, str]) -> set[str]:
    """The runs that DVC would make, once it has seen what they depend on."""
    dvc(folder, environment, "repro", "inputs", "variants", "code")
    return would_run(folder, environment, "train")


def append(path: Path, text: str = "\n# edited\n") -> None:
    path.write_text(path.read_text() + text)


def edit_params(folder: Path, change) -> None:
    values = yaml.safe_load((folder / "params.yaml").read_text())
    change(values)
    (folder / "params.yaml").write_text(yaml.safe_dump(values))


DENSE_RUNS = {"train@0-small_dense-float32", "train@0-small_dense-mixed"}
EFFICIENTNET_RUNS = {"train@0-small_efficientnet-float32", "train@0-small_efficientnet-mixed"}


def test_the_run_is_complete(finished):
    records = sorted(str(path.relative_to(finished)) for path in finished.glob("runs/*/*/*/record.json"))
    assert records == [
        "runs/small_dense/float32/seed-0/record.json",
        "runs/small_dense/mixed/seed-0/record.json",
        "runs/small_efficientnet/float32/seed-0/record.json",
    ]
    record = json.loads((finished / records[0]).read_text())
    assert record["environment"]["lock_sha256"]
    assert record["environment"]["git_commit"]
    assert (finished / "results" / "report.html").stat().st_size > 10_000
    assert not list(finished.glob("**/*.partial"))


def test_a_second_repro_runs_nothing(clone, environment):
    started = time.perf_counter()
    assert not RUNNING.findall(dvc(clone, environment, "repro"))
    assert time.perf_counter() - started < 10


def test_a_new_seed_trains_only_itself(clone, environment):
    edit_params(clone, lambda values: values["seeds"].append(1))
    assert would_train(clone, environment) == {name.replace("@0", "@1") for name in DENSE_RUNS | EFFICIENTNET_RUNS}


def test_a_changed_recipe_retrains_its_own_benchmark(clone, environment):
    edit_params(clone, lambda values: values["benchmarks"]["small_dense"].update(num_epochs=3))
    assert would_train(clone, environment) == DENSE_RUNS


def test_a_changed_variant_retrains_that_variant(clone, environment):
    edit_params(clone, lambda values: values["variants"]["mixed"].update(policy="mixed_float16"))
    assert would_train(clone, environment) == {"train@0-small_dense-mixed", "train@0-small_efficientnet-mixed"}


def test_a_new_campaign_trains_anew(clone, environment):
    edit_params(clone, lambda values: values.update(campaign="second"))
    assert would_train(clone, environment) == DENSE_RUNS | EFFICIENTNET_RUNS


def test_an_edited_figure_retrains_nothing(clone, environment):
    append(clone / "pipeline" / "figures.py")
    assert would_run(clone, environment) == {"report"}


def test_an_edited_model_retrains_what_uses_it(clone, environment):
    append(clone / "pipeline" / "models" / "dense.py")
    assert would_run(clone, environment, "inputs") == {"inputs@small_dense"}
    assert would_train(clone, environment) == DENSE_RUNS


def test_another_image_retrains_and_another_readme_does_not(clone, environment):
    append(clone / "README.md")
    append(clone / "requirements" / "cuda.txt")
    assert would_train(clone, environment) == set()
    append(clone / "Dockerfile")
    assert would_train(clone, environment) == DENSE_RUNS | EFFICIENTNET_RUNS


def test_a_newer_runtime_package_retrains_and_a_newer_linter_does_not(clone, environment):
    for name in ("development.txt", "workflow.txt"):
        append(clone / "requirements" / name)
    assert would_train(clone, environment) == set()
    append(clone / "requirements" / "cpu.txt")
    assert would_train(clone, environment) == DENSE_RUNS | EFFICIENTNET_RUNS


def test_edited_code_of_training_retrains(clone, environment):
    append(clone / "pipeline" / "clock.py")
    assert would_run(clone, environment, "code") == {"code"}
    assert would_train(clone, environment) == DENSE_RUNS | EFFICIENTNET_RUNS


def test_dvc_shows_something_useful(clone, environment):
    graph = dvc(clone, environment, "dag", "--mermaid")
    assert "train@0-small_dense-mixed" in graph
    metrics = json.loads(dvc(clone, environment, "metrics", "show", "--json"))
    summary = metrics[""]["data"]["results/summary.json"]["data"]
    assert summary["small_dense"]["mixed"]["speedup"] > 0
    plots = dvc(clone, environment, "plots", "show", "--json")
    assert "validation_accuracy" in plots
    assert '"x2": {"field": "accuracy_difference_pp_high"}' in plots
    edit_params(clone, lambda values: values["benchmarks"]["small_dense"].update(num_epochs=3))
    difference = json.loads(dvc(clone, environment, "params", "diff", "--json"))
    assert difference["params.yaml"]["benchmarks.small_dense.num_epochs"] == {"old": 40, "new": 3, "diff": -37}


def test_an_experiment_changes_a_single_value(clone, environment):
    output = dvc(clone, environment, "exp", "run", "-S", "comparison.num_warmup_epochs=0")
    assert not [name for name in RUNNING.findall(output) if name.startswith("train")]
    assert yaml.safe_load((clone / "params.yaml").read_text())["comparison"]["num_warmup_epochs"] == 0
    git(clone, "checkout", "--", ".")
    dvc(clone, environment, "checkout", "--force")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_after_a_kill_the_next_repro_makes_what_is_unfinished(clone, environment, how):
    edit_params(clone, lambda values: values["variants"]["mixed"].update(policy="mixed_float16"))
    folder = clone / "runs" / "small_dense" / "mixed" / "seed-0"
    with subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "--no-run-cache", "train"],
        cwd=clone,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever runs the tests in the background may have had interrupts ignored, which is inherited.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        for line in process.stdout:
            if "epoch 1/40" in line:
                os.killpg(process.pid, how)
                break
        process.stdout.read()
    assert process.returncode != 0
    assert not folder.exists()

    output = dvc(clone, environment, "repro", "--no-run-cache", "train")
    assert RUNNING.findall(output) == ["train@0-small_dense-mixed", "train@0-small_efficientnet-mixed"]
    assert json.loads((folder / "record.json").read_text())["policy"] == "mixed_float16"
    git(clone, "checkout", "--", ".")
    dvc(clone, environment, "checkout", "--force")
