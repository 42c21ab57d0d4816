"""Hardware: the formats that it multiplies, and how it is recognised."""

import pytest

from pipeline.machine import hardware as hardware_here
from pipeline.machine.hardware import Hardware, hardware_of
from pipeline.study.policies import FORMATS


def gpu(capability):
    return Hardware("nvidia_gpu", "GPU", capability)


def cpu(*features):
    return Hardware("cpu", "CPU", cpu_features=features)


@pytest.mark.parametrize(
    ("hardware", "formats"),
    [
        (gpu(7.0), {"float16"}),
        (gpu(8.0), {"float16", "bfloat16", "tf32"}),
        (gpu(8.9), {"float16", "bfloat16", "tf32", "float8"}),
        (Hardware("tpu", "v5e"), {"bfloat16", "tf32"}),  # float32 products in bfloat16
        (cpu("avx2"), set()),
        (cpu("avx2", "avx512_bf16"), {"bfloat16"}),
        (cpu("avx512_bf16", "amx_bf16", "amx_fp16"), {"float16", "bfloat16"}),
    ],
)
def test_the_formats_that_hardware_multiplies_follow_from_its_features(hardware, formats):
    assert {name for name in FORMATS if hardware.multiplies(name)} == formats | {"float32"}


@pytest.mark.parametrize(
    ("vendor", "device", "found"),
    [("0x1ae0", "0x0063", True), ("0x1ae0", "0x0042", False), ("0x10de", "0x0063", False)],
)
def test_a_tpu_is_recognised_by_its_pci_ids(tmp_path, monkeypatch, vendor, device, found):
    """0x1ae0, 0x0042 is the network card of Google's virtual machines."""
    (tmp_path / "odd").mkdir()
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "vendor").write_text(f"{vendor}\n")
    (tmp_path / "card" / "device").write_text(f"{device}\n")
    monkeypatch.setattr(hardware_here, "PCI_DEVICES", tmp_path)
    assert hardware_here.has_tpu() is found


def test_hardware_is_read_from_a_recorded_environment():
    gpu = {"kind": "gpu", "name": "V100", "compute_capability": "7.0", "memory_bytes": 2**34}
    tpu = {"kind": "tpu", "name": "TPU v5e", "compute_capability": "", "memory_bytes": None}
    machine = {"cpu": "X", "machine": "x86_64", "cpu_features": ["avx2"]}
    assert hardware_of(machine | {"accelerators": [gpu]}) == Hardware("nvidia_gpu", "V100", 7.0, 2**34)
    assert hardware_of(machine | {"accelerators": [tpu]}) == Hardware("tpu", "TPU v5e")
    assert hardware_of(machine | {"accelerators": []}) == Hardware("cpu", "X", cpu_features=("avx2",))
