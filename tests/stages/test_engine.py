"""The engine that is chosen for the hardware, as printed for make."""

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pynvml
import pytest
from conftest import REPOSITORY
from nvml import show

from pipeline.machine import hardware
from stages import engine

V100, H100 = ("Tesla V100-SXM2-16GB", "7.0"), ("NVIDIA H100 80GB HBM3", "9.0")


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """A function that asks in an empty folder; it returns the answer, whose line that says why comes last."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hardware, "has_tpu", lambda: False)

    def ask() -> list[str]:
        engine.main(Namespace())
        return capsys.readouterr().out.strip().split(" ", 1)

    return ask


@pytest.mark.parametrize(
    ("gpus", "name", "why"),
    [
        ([], "cpu", "found no GPU and no TPU: ENGINE=cpu"),
        ([V100], "cuda-jax", "found Tesla V100-SXM2-16GB, compute capability 7.0: ENGINE=cuda-jax"),
    ],
)
def test_the_engine_is_cuda_jax_on_an_nvidia_gpu_and_cpu_without_one(monkeypatch, asked, gpus, name, why):
    show(monkeypatch, *gpus)
    found, line = asked()
    assert found == name
    assert why in line
    assert "To choose another, add to the command: ENGINE=" in line


def test_a_driver_error_is_quoted_and_the_engine_is_cpu(monkeypatch, asked):
    show(monkeypatch, H100, fault=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    found, line = asked()
    assert (found, "(NVIDIA's driver answers: " in line) == ("cpu", True)
    show(monkeypatch, fault=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)  # which is no error where there is no GPU
    assert "driver" not in asked()[1]


def test_the_engine_is_tpu_on_a_tpu(monkeypatch, asked):
    show(monkeypatch)
    monkeypatch.setattr(hardware, "has_tpu", lambda: True)
    found, line = asked()
    assert (found, line.partition(",")[0]) == ("tpu", "found TPU: ENGINE=tpu")


def test_the_engine_of_finished_runs_is_chosen_again(monkeypatch, asked):
    show(monkeypatch, H100)
    record = Path("runs/mnist_dense/float32/seed-0/record.json")
    record.parent.mkdir(parents=True)
    record.write_text('{"environment": {"runtime": "cuda"}}')
    found, line = asked()
    assert (found, "ENGINE=cuda, as the finished runs here" in line) == ("cuda", True)


def test_detection_imports_only_what_the_first_set_up_installs():
    """At the first set-up there are only a parser, NVML and Python."""
    script = "import sys; from stages import engine; print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not {"numpy", "pydantic", "psutil", "rich", "keras", "tensorflow", "jax"} & set(done.stdout.split())
