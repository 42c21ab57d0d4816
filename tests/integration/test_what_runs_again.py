"""What DVC would run again after a change, as it decides it for a study that is finished."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from conftest import benchmark
from dvc.repo import Repo
from projects import PROFILE, USER_ENVIRONMENT, commit, dense_study, edit_params, git, make_project

from pipeline.campaign.run_cache import nothing_is_left
from pipeline.study.schema import load_study
from stages.repro import is_timed

STUDY = dense_study(num_epochs=2)
STUDY["datasets"] = {name: {"bundled": name} for name in ("mnist", "cifar100_quick")}
STUDY["benchmarks"]["in_colour"] = benchmark(units=8, image_size=32, dataset="cifar100_quick")
STUDY["variants"]["mixed"]["benchmarks"] = ["small_dense"]
STUDY["comparison"]["margin_pp"]["in_colour"] = 1.0
DENSE_RUNS = {"train@0-small_dense-float32", "train@0-small_dense-mixed"}
COLOUR_RUNS = {"train@0-in_colour-float32"}
LEFT_OUT = {"train@0-in_colour-mixed"}  # what DVC's matrix has beyond the study; nothing changes it

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # of pygtrie, which DVC uses


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Iterator[Path]:
    """A clone of the project whose study DVC takes for finished: data and `inputs/` are real, the rest is a word."""
    folder = tmp_path_factory.mktemp("clone") / "project"
    make_project(folder, STUDY, PROFILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", USER_ENVIRONMENT["PATH"])
        patch.delenv("PYTHONPATH", raising=False)  # the stages are the clone's own
        with chdir(folder), Repo() as repo:
            repo.reproduce("inputs")
            for stage in repo.index.stages:
                for output in stage.outs:
                    path = Path(output.fs_path)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if not path.exists():
                        path.write_text("made")
            repo.commit(force=True)
        commit(folder)
        yield folder


@pytest.fixture
def project(finished) -> Iterator[Path]:
    """The finished project, put back as it was after the test."""
    yield finished
    git(finished, "checkout", "--quiet", "--", ".")
    with chdir(finished), Repo() as repo:
        repo.checkout("inputs", force=True)


def would_run(folder: Path, *targets: str, force: bool = False) -> list[str]:
    with chdir(folder), Repo() as repo:
        stages = [stage.addressing for stage in repo.reproduce(targets, dry=True, force=force)]
    if not (targets or force):
        assert nothing_is_left(folder) == (not stages)
    return stages


def would_train(folder: Path) -> set[str]:
    """The runs that DVC would make, once it has seen what they depend on."""
    with chdir(folder), Repo() as repo:
        repo.reproduce("inputs")
    return {*would_run(folder, "train")}


def timed(folder: Path) -> set[str]:
    """The benchmarks whose turns `make repro` says to be there, before DVC looks at anything."""
    with chdir(folder):
        study = load_study()
        return {name for name in study.benchmarks if is_timed(study, name)}


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_what_is_finished_runs_no_more(project):
    assert would_run(project) == []


def test_a_new_seed_trains_only_itself(project):
    edit_params(project, lambda values: values["seeds"].append(1))
    assert timed(project) == {"small_dense", "in_colour"}
    assert would_train(project) == {name.replace("@0", "@1") for name in DENSE_RUNS | COLOUR_RUNS | LEFT_OUT}


def test_a_variant_that_another_benchmark_gets_trains_and_times_there_alone(project):
    edit_params(project, lambda values: values["variants"]["mixed"].pop("benchmarks"))
    assert timed(project) == {"small_dense"}
    assert would_train(project) == LEFT_OUT
    assert {name for name in would_run(project) if name.startswith("speed")} == {"speed@in_colour"}


def test_other_seconds_for_the_turns_time_anew_and_train_nothing(project):
    edit_params(project, lambda values: values["speed"].update(budget_seconds=7.0))
    assert timed(project) == would_train(project) == set()
    assert {name for name in would_run(project) if name.startswith("speed")} == {"speed@small_dense", "speed@in_colour"}


def test_what_no_run_uses_reads_and_trains_nothing(project):
    append(project / "pipeline" / "report" / "figures.py", "\nEDITED = 1\n")
    for path in ("README.md", "pipeline/models/efficientnet.py", "requirements/cuda.txt", "requirements/workflow.txt"):
        append(project / path, "\n# edited\n")
    assert would_run(project) == ["report"]


def test_every_model_is_built_before_any_run_trains(project):
    append(project / "pipeline" / "study" / "schema.py", "\nEDITED = 1\n")
    order = would_run(project, force=True)
    kinds = [name.partition("@")[0] for name in order]
    assert max(i for i, kind in enumerate(kinds) if kind == "inputs") < kinds.index("train")
