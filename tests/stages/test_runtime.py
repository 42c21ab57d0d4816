"""What trains a study that names no engine, by the hardware that is here: what Make is told."""

import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pynvml
import pytest
from conftest import REPOSITORY
from nvml import show

from pipeline.machine import hardware
from stages import runtime

V100, H100 = ("Tesla V100-SXM2-16GB", "7.0"), ("NVIDIA H100 80GB HBM3", "9.0")
B200, RTX_5090 = ("NVIDIA B200", "10.0"), ("NVIDIA GeForce RTX 5090", "12.0")
GTX_980 = ("NVIDIA GeForce GTX 980", "5.2")


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """A function that asks in a copy of the project; it returns the answer, whose line that says why comes last."""
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runtime.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(hardware, "has_tpu", lambda: False)

    def ask(profile: str | None = None, here: bool = True) -> list[str]:
        runtime.main(Namespace(profile=profile, here=here))
        return capsys.readouterr().out.strip().split(" ", 2)

    return ask


@pytest.mark.parametrize(
    ("gpus", "engine", "why"),
    [
        ([], "cpu", "found no GPU and no TPU: ENGINE=cpu"),
        ([V100], "cuda", "found Tesla V100-SXM2-16GB, compute capability 7.0: ENGINE=cuda"),
        ([H100], "cuda", "compute capability 9.0: ENGINE=cuda"),
        ([B200], "cuda-jax", "since TensorFlow's packages end at compute capability 9.0"),
        ([RTX_5090], "cuda-jax", "since TensorFlow's packages end at compute capability 9.0"),
        ([H100, B200], "cuda", "found 2 GPUs, the first of them NVIDIA H100"),
        ([GTX_980], "cpu", "packages for GPUs begin at compute capability 6.0"),
    ],
)
def test_an_nvidia_gpu_trains_by_the_packages_that_have_kernels_for_it(monkeypatch, asked, gpus, engine, why):
    show(monkeypatch, *gpus)
    said, found, line = asked()
    assert (said, found) == ("cpu", engine)
    assert why in line
    assert "To choose another, add to the command: ENGINE=" in line
    assert "\n" not in line


def test_a_driver_that_answers_with_an_error_is_quoted_and_the_cpu_trains(monkeypatch, asked):
    show(monkeypatch, H100, fault=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    said, engine, line = asked()
    assert (said, engine, "(NVIDIA's driver answers: " in line) == ("cpu", "cpu", True)
    show(monkeypatch, fault=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)  # which is no error where there is no GPU
    assert "driver" not in asked()[2]


def test_a_gpu_that_is_hidden_is_not_taken(monkeypatch, asked):
    show(monkeypatch, B200, H100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert asked()[1] == "cuda"


def test_packages_for_gpus_are_for_one_architecture(monkeypatch, asked):
    show(monkeypatch, H100)
    monkeypatch.setattr(runtime.platform, "machine", lambda: "aarch64")
    _, engine, line = asked()
    assert (engine, "not for aarch64" in line) == ("cpu", True)


def test_a_tpu_trains_by_jax(monkeypatch, asked):
    show(monkeypatch)
    monkeypatch.setattr(hardware, "has_tpu", lambda: True)
    _, engine, line = asked()
    assert (engine, line.partition(",")[0]) == ("tpu", "found TPU: ENGINE=tpu")


def test_a_study_that_names_an_accelerator_or_has_finished_runs_stays_as_it_is(monkeypatch, asked):
    show(monkeypatch, H100)
    profiles = ("paper", "paper_jax", "tpu")
    assert [asked(profile)[:2] for profile in profiles] == [["cpu", "cuda"], ["cuda-jax"] * 2, ["tpu"] * 2]
    record = Path("runs/mnist_dense/float32/seed-0/record.json")
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    for profile in (None, "quick"):
        said, engine, line = asked(profile)
        assert (said, engine) == ("cpu", "cpu")
        assert "ENGINE=cpu, as the finished runs of this study" in line
    assert asked("paper")[:2] == ["cpu", "cuda"]  # which has none
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("runtime: cpu", "runtime: cuda"))
    show(monkeypatch)
    assert asked("quick")[:2] == ["cpu", "cuda"]  # where its runs were made


def test_who_does_not_ask_for_what_is_here_is_told_what_the_study_says(monkeypatch, asked):
    """A campaign, say, whose login node may have a GPU."""
    show(monkeypatch, H100)
    assert asked(here=False) == ["cpu"]


def test_detection_imports_neither_a_framework_nor_what_is_not_there_yet():
    """At the first set-up there is a parser, NVML and Python."""
    script = "import sys; from stages import runtime; print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not {"numpy", "pydantic", "psutil", "rich", "keras", "tensorflow", "jax"} & set(done.stdout.split())
