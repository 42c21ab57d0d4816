"""Messages of `make repro` about a study and its claims before anything runs; exit statuses."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import REPOSITORY, planned_record, small_study, write_small_run
from projects import run, stage

from pipeline.files import yaml_files
from pipeline.machine.hardware import Hardware
from pipeline.study.schema import RunKey
from pipeline.words.sentences import Said
from stages import check

XEON, H100 = Hardware("cpu", "Xeon", cpu_features=("avx2",)), Hardware("nvidia_gpu", "H100", 9.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(REPOSITORY / "claims.yaml", tmp_path)
    return tmp_path


def write(folder: Path, values: dict) -> None:
    (folder / "params.yaml").write_text(yaml_files.dump(values))


@pytest.mark.parametrize(
    ("runtime", "hardware", "said"),
    [("cpu", XEON, "check.device"), ("cuda", XEON, "check.no_device"), ("cpu", H100, "check.other_device")],
)
def test_the_check_says_which_hardware_trains(runtime, hardware, said):
    assert check.trains_on(runtime, hardware).code == said


def test_faults_in_both_files_are_reported_at_once_with_exit_status_2(folder):
    (folder / "params.yaml").write_text("seeds: []\nbenchmark: {}\n")
    (folder / "claims.yaml").write_text("claim: []\n")
    done = stage(folder, "check")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "params.yaml: " in done.stderr
    assert "benchmark: unknown key. Did you mean 'benchmarks'?" in done.stderr
    assert "claim: unknown key. Did you mean 'claims'?" in done.stderr


def test_finished_runs_from_another_device_are_reported_before_training(folder, monkeypatch):
    """They were made on the two cores of an Example CPU. Those of another campaign are trained again anyway."""
    study = small_study()
    monkeypatch.chdir(folder)

    def said(made: Sequence[RunKey], **changes: object) -> list[Said]:
        for key in made:
            write_small_run(folder, planned_record(key, study, **changes), 9.0, 2.0)
        return check.runs_from_elsewhere(study, XEON)

    of_first_seed = [key for key in study.runs() if key.seed == 0]
    (begun,) = said(of_first_seed[:2])
    assert (begun.numbers["num_runs"], begun.numbers["there"], begun.numbers["seeds"]) == (
        2,
        "Example CPU, 2 cores",
        [0],
    )
    (whole,) = said(of_first_seed)
    assert whole.numbers["seeds"] == []
    assert said(of_first_seed, planned={"campaign": "earlier"}) == []
    said(of_first_seed)
    monkeypatch.setattr(check, "device_name_here", lambda: "Example CPU, 2 cores")
    assert check.runs_from_elsewhere(study, XEON) == []


def test_a_missing_source_of_a_model_is_reported(folder):
    values = small_study().model_dump(mode="json")
    values["benchmarks"]["wide"]["model"] = {"name": "own.networks:build", "source": "own"}
    write(folder, values)
    assert "own does not exist. `source` is the file or folder that holds your module" in stage(folder, "check").stderr


def test_the_check_imports_no_engine():
    script = "import sys, stages.check; print(*sys.modules)"
    done = run(REPOSITORY, sys.executable, "-c", script)
    assert done.returncode == 0
    assert not {"keras", "tensorflow", "jax"} & set(done.stdout.split())


def test_a_full_disk_is_reported_without_traceback():
    code = """
import argparse, stages
def main(_):
    with open("/dev/full", "w") as file:
        file.write("something")
stages.run(main, argparse.ArgumentParser())
"""
    done = run(REPOSITORY, sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: No space left on device. Make room, then run the same command: what is finished stays.\n"
    )
