"""The whole pipeline under DVC, as a user runs it: a small study on TFDS files with fake images, no network."""

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from conftest import REPOSITORY, benchmark
from projects import PROFILE, commit, dense_study, git, make_project

from bench.fake_datasets import write_fake_tfds
from pipeline.numerics.facts import POLICIES, TRIALS, facts_of, sample_names

STUDY = dense_study(num_epochs=40)
STUDY["datasets"]["cifar100"] = {"tfds": "cifar10"}
STUDY["benchmarks"]["in_colour"] = benchmark(units=8, image_size=32, num_epochs=2, dataset="cifar100")
STUDY["variants"]["mixed"]["benchmarks"] = ["small_dense"]
STUDY["comparison"]["margin_pp"]["in_colour"] = 1.0
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
    (folder.parent / "opened").mkdir()
    done = dvc(folder, environment | opened_files(folder.parent), "repro")
    assert len(RUNNING.findall(done)) == 2 + 2 + 4 + 2 + 5, done
    commit(folder)
    return folder


def opened_files(folder: Path) -> dict[str, str]:
    """The variables by which stages write down under `folder` which files they open."""
    return {"PYTHONPATH": str(REPOSITORY / "tests" / "opened"), "OPENED_FOLDER": str(folder / "opened")}


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
    dvc(folder, environment, "repro", "inputs")
    return would_run(folder, environment, "train")


def append(path: Path, text: str = "\nEDITED = 1\n") -> None:
    path.write_text(path.read_text() + text)


def reword(path: Path) -> None:
    path.write_text(f'"""Say it in other words."""\n{path.read_text()}\n# a remark\n')


def edit_params(folder: Path, change) -> None:
    values = yaml.safe_load((folder / "params.yaml").read_text())
    change(values)
    (folder / "params.yaml").write_text(yaml.safe_dump(values))


DENSE_RUNS = {"train@0-small_dense-float32", "train@0-small_dense-mixed"}
COLOUR_RUNS = {"train@0-in_colour-float32"}
LEFT_OUT = {"train@0-in_colour-mixed"}  # what DVC's matrix has beyond the study; nothing changes it


def test_the_run_is_complete(finished):
    records = sorted(str(path.relative_to(finished)) for path in finished.glob("runs/*/*/*/record.json"))
    assert records == [
        "runs/in_colour/float32/seed-0/record.json",
        "runs/small_dense/float32/seed-0/record.json",
        "runs/small_dense/mixed/seed-0/record.json",
    ]
    record = json.loads((finished / records[0]).read_text())
    assert record["environment"]["lock_sha256"]
    assert record["environment"]["git_commit"]
    assert (finished / "results" / "report.html").stat().st_size > 10_000
    assert not list(finished.glob("**/*.partial"))


def test_numerics_writes_exactly_the_facts_that_claims_may_ask_for(finished):
    found = json.loads((finished / "results" / "numerics.json").read_text())
    benchmarks = STUDY["benchmarks"]
    assert set(found["facts"]) == facts_of(benchmarks).keys()
    assert set(found["samples"]) == sample_names(benchmarks)
    assert set(found["models"]) == set(found["gradients"]) == set(benchmarks)
    assert [trial["name"] for trial in found["trials"]] == [trial.name for trial in TRIALS]
    with (finished / "results" / "layers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["policy"] for row in rows} == set(POLICIES)
    assert {row["layer"] for row in rows if row["kind"] == "Dense"} == {"dense", "dense_1", "dense_2"}


def test_a_second_repro_runs_nothing(clone, environment):
    started = time.perf_counter()
    assert not RUNNING.findall(dvc(clone, environment, "repro"))
    assert time.perf_counter() - started < 10


def test_a_new_seed_trains_only_itself(clone, environment):
    edit_params(clone, lambda values: values["seeds"].append(1))
    assert would_train(clone, environment) == {name.replace("@0", "@1") for name in DENSE_RUNS | COLOUR_RUNS | LEFT_OUT}


def test_a_changed_recipe_retrains_its_own_benchmark(clone, environment):
    edit_params(clone, lambda values: values["benchmarks"]["small_dense"].update(num_epochs=3))
    assert would_train(clone, environment) == DENSE_RUNS


def test_a_changed_variant_retrains_that_variant(clone, environment):
    edit_params(clone, lambda values: values["variants"]["mixed"].update(policy="mixed_float16"))
    assert would_train(clone, environment) == {"train@0-small_dense-mixed"}


def test_a_new_campaign_trains_anew(clone, environment):
    edit_params(clone, lambda values: values.update(campaign="second"))
    assert would_train(clone, environment) == DENSE_RUNS | COLOUR_RUNS


def test_an_edited_figure_retrains_nothing(clone, environment):
    append(clone / "pipeline" / "report" / "figures.py")
    assert would_run(clone, environment) == {"report"}


def test_an_edited_model_retrains_what_uses_it(clone, environment):
    append(clone / "pipeline" / "models" / "efficientnet.py")
    assert would_run(clone, environment) == set()
    append(clone / "pipeline" / "models" / "dense.py")
    assert would_run(clone, environment, "inputs") == {"inputs@small_dense", "inputs@in_colour"}
    assert would_train(clone, environment) == DENSE_RUNS | COLOUR_RUNS


def test_another_image_retrains_and_another_readme_does_not(clone, environment):
    append(clone / "README.md", "\nedited\n")
    append(clone / "requirements" / "cuda.txt", "\n# edited\n")
    assert would_train(clone, environment) == set()
    append(clone / "Dockerfile", "\n# edited\n")
    assert would_train(clone, environment) == DENSE_RUNS | COLOUR_RUNS


def test_a_newer_runtime_package_retrains_and_a_newer_linter_does_not(clone, environment):
    for name in ("development.txt", "workflow.txt"):
        append(clone / "requirements" / name, "\n# edited\n")
    assert would_train(clone, environment) == set()
    append(clone / "requirements" / "cpu.txt", "\n# edited\n")
    assert would_train(clone, environment) == DENSE_RUNS | COLOUR_RUNS


def test_edited_code_of_training_retrains(clone, environment):
    append(clone / "pipeline" / "training" / "clock.py")
    assert would_run(clone, environment, "inputs") == {"inputs@small_dense", "inputs@in_colour"}
    assert would_train(clone, environment) == DENSE_RUNS | COLOUR_RUNS


def test_reworded_comments_and_docstrings_retrain_nothing(clone, environment):
    for path in ("pipeline/training/clock.py", "pipeline/engine/__init__.py", "pipeline/models/dense.py"):
        reword(clone / path)
    assert would_train(clone, environment) == set()
    assert not any(name.startswith("speed") for name in would_run(clone, environment))


def test_a_variant_that_another_benchmark_gets_trains_and_times_there_alone(clone, environment):
    edit_params(clone, lambda values: values["variants"]["mixed"].pop("benchmarks"))
    assert would_train(clone, environment) == LEFT_OUT
    assert {name for name in would_run(clone, environment) if name.startswith("speed")} == {"speed@in_colour"}


def test_every_model_is_built_before_any_run_trains(clone, environment):
    append(clone / "pipeline" / "study" / "schema.py")
    order = RUNNING.findall(dvc(clone, environment, "repro", "--dry", "--force"))
    kinds = [name.partition("@")[0] for name in order]
    assert max(i for i, kind in enumerate(kinds) if kind == "inputs") < kinds.index("train")


def test_dvc_shows_something_useful(clone, environment):
    graph = dvc(clone, environment, "dag", "--mermaid")
    assert "train@0-small_dense-mixed" in graph
    metrics = json.loads(dvc(clone, environment, "metrics", "show", "--json"))
    assert metrics[""]["data"]["results/speedup.json"]["data"]["small_dense"] > 0
    assert max(map(len, dvc(clone, environment, "metrics", "show").splitlines())) <= 80
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


def test_a_second_study_is_a_second_column_of_the_matrix(clone, environment):
    """This study, published beside the one that the project has: what both found stands side by side."""
    for words in (["stages.publish", "--to", "docs/reports/tiny"], ["stages.site"]):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    index = (clone / "site" / "index.html").read_text()
    heads = re.findall(r'<th [^>]*class="study"[^>]*><a href="([^"]+)/report\.html">', index)
    assert set(heads) == {path.name for path in (clone / "docs/reports").iterdir()} > {"tiny"}
    for name in heads:
        verdicts = json.loads((clone / "docs/reports" / name / "verdicts.json").read_text())
        cells = re.findall(rf'href="{name}/report\.html#claim-([^"]+)">([^<]+)</a>', index)
        assert sorted(cells) == sorted((verdict["id"], verdict["verdict"]) for verdict in verdicts)
    row = next(row for row in index.split("</tr>") if "claims/s1-half-the-size.html" in row)
    assert row.count("#claim-s1-half-the-size") == len(heads)
    shutil.rmtree(clone / "site")


def test_after_a_kill_the_next_repro_makes_what_is_unfinished(clone, environment):
    edit_params(clone, lambda values: values["variants"]["mixed"].update(policy="mixed_float16"))
    folder = clone / "runs" / "small_dense" / "mixed" / "seed-0"
    with subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "--no-run-cache", "train"],
        cwd=clone,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        for line in process.stdout:
            if "epoch 1/40" in line:
                os.killpg(process.pid, signal.SIGKILL)
                break
        process.stdout.read()
    assert process.returncode != 0
    assert not folder.exists()

    output = dvc(clone, environment, "repro", "--no-run-cache", "train")
    assert RUNNING.findall(output) == ["train@0-small_dense-mixed"]
    assert json.loads((folder / "record.json").read_text())["planned"]["policy"] == "mixed_float16"
    git(clone, "checkout", "--", ".")
    dvc(clone, environment, "checkout", "--force")


class Stage(NamedTuple):
    """A stage as DVC resolves it: the files or folders it depends on and writes, relative to the project."""

    command: str
    dependencies: set[str]
    outputs: set[str]


@pytest.fixture(scope="module")
def stages(finished) -> list[Stage]:
    from dvc.repo import Repo

    def paths(found) -> set[str]:
        return {os.path.relpath(one.fs_path, finished) for one in found}

    with contextlib.chdir(finished), Repo() as repo:
        return [Stage(stage.cmd, paths(stage.deps), paths(stage.outs)) for stage in repo.index.stages]


@pytest.fixture(scope="module")
def opened(finished, environment) -> dict[str, set[str]]:
    """Stage's command → the files of the project that it opened to read, but for those it threw away and its code.

    A checkpoint knows the whole library by its digest.
    """
    # No CPU is filled with a batch: this is what `ceilings` starts on an accelerator.
    trying = ("--benchmark", "small_dense", "--variant", "mixed", "--batch-size", "16")
    variables = opened_files(finished.parent) | {"OPENED_BY": "python -m stages.ceilings"}
    command = [sys.executable, "-m", "stages.try_batch", *trying]
    subprocess.run(command, cwd=finished, env=environment | variables, check=True)
    found: dict[str, set[str]] = {}
    for lines in (finished.parent / "opened").iterdir():
        for line in lines.read_text().splitlines():
            command, path = line.split("\t")
            file = Path(path)
            is_code = file.suffix in (".py", ".pyc") or file.is_relative_to(finished / "pipeline")
            if file.is_relative_to(finished) and not is_code and file.is_file():
                found.setdefault(command, set()).add(str(file.relative_to(finished)))
    return found


def inside(path: str, folders: set[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def test_a_stage_depends_on_every_file_it_opens(stages, opened):
    """Less would keep stale results. What holds digests of files stands for them: data sets' descriptions, inputs/."""

    def covered(stage: Stage) -> set[str]:
        digests = {path for path in stage.dependencies if path.startswith("inputs")}
        makers = [
            other
            for other in stages
            for output in other.outputs
            if inside(output, digests) or any(inside(path, {output}) for path in digests)
        ]
        own = {path.removesuffix("/dataset.json") for path in stage.dependencies}
        return own.union(*map(covered, makers))

    missing = {
        stage.command: {file for file in opened[stage.command] if not inside(file, covered(stage) | stage.outputs)}
        for stage in stages
    }
    assert not {command: files for command, files in missing.items() if files}


def test_a_stage_opens_what_it_depends_on(finished, stages, opened):
    """More would make results again for nothing. Digests, packages, image and bundled data have their own tests."""
    elsewhere = {"bundled", "inputs", "requirements", "Dockerfile", "params.yaml"}
    tracked = git(finished, "ls-files").splitlines()
    unopened = {
        (stage.command, file)
        for stage in stages
        for path in stage.dependencies
        if not inside(path, elsewhere) and not path.endswith(".py")
        for file in [file for file in tracked if inside(file, {path}) and not file.endswith(".py")] or [path]
        if not inside(path, {"pipeline"})  # rooms, which have more than one stage imports
        if not any(inside(one, {file}) for one in opened[stage.command])
    }
    assert not unopened
