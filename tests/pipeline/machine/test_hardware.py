"""The GPUs of this machine, as NVIDIA's driver and as a record describe them."""

import pynvml
import pytest
from conftest import ENVIRONMENT
from nvml import show
from pydantic import TypeAdapter

from pipeline.comparison.finished_runs import surroundings
from pipeline.machine import environment, hardware
from pipeline.records.run_record import Environment

ENVIRONMENTS = TypeAdapter(Environment)
H100 = ("NVIDIA H100 80GB HBM3", "9.0")


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aa1", "GPU-ab2", "GPU-ac3"]),
        ("2,0", ["GPU-ac3", "GPU-aa1"]),
        ("GPU-ab2,GPU-aa1", ["GPU-ab2", "GPU-aa1"]),
        ("1,9,0", ["GPU-ab2"]),  # CUDA stops at the first that there is not
        ("-1", []),
    ],
)
def test_visible_gpus_follow_cuda_visible_devices(monkeypatch, visible, uuids):
    show(monkeypatch, H100, H100, H100, uuids=("GPU-aa1", "GPU-ab2", "GPU-ac3"))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.visible_gpus() == uuids


def test_a_mig_part_has_the_compute_capability_of_its_gpu(monkeypatch):
    show(monkeypatch, H100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    for name, function in {
        "nvmlDeviceIsMigDeviceHandle": lambda handle: handle == "MIG-1",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda _: "GPU-0",
        "nvmlDeviceGetName": lambda handle: f"a part: {handle}",
    }.items():
        monkeypatch.setattr(pynvml, name, function)
    (part,) = hardware.gpus()
    assert (part.name, part.compute_capability) == ("a part: MIG-1", 9.0)


def test_a_record_names_its_gpu_and_another_of_the_same_model_is_comparable(monkeypatch):
    def on(*places: int):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, places)))
        accelerators = [{"kind": "gpu", "name": H100[0], "compute_capability": "9.0"} for _ in places]
        return ENVIRONMENTS.validate_python(environment.environment_here(accelerators, {}, "cuDNN"))

    monkeypatch.setattr(environment, "driver", lambda: "590.1")
    show(monkeypatch, H100, H100)
    first, second = on(0), on(1)
    assert [found["accelerators"][0]["uuid"] for found in (first, second)] == ["GPU-0", "GPU-1"]
    assert surroundings(first) == surroundings(second)
    assert [gpu["uuid"] for gpu in on(1, 0)["accelerators"]] == ["GPU-1", "GPU-0"]


def test_records_without_a_gpu_uuid_can_be_read():
    gpu = {"kind": "gpu", "name": H100[0], "compute_capability": "9.0", "memory_bytes": 2**36}
    assert ENVIRONMENTS.validate_python(ENVIRONMENT | {"accelerators": [gpu]})["accelerators"] == [gpu]


def test_a_record_lists_the_environment_variables_that_affect_libraries(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "100000000000")
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", "~/.terraformrc")
    variables = ENVIRONMENTS.validate_python(environment.environment_here([], {}, "oneDNN"))["variables"]
    assert variables["MALLOC_TRIM_THRESHOLD_"] == "100000000000"
    assert "TF_CLI_CONFIG_FILE" not in variables
