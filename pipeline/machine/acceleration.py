"""Which 16-bit arithmetic which device multiplies in hardware.

Sources: NVIDIA's table of compute capabilities (CUDA C++ Programming Guide, tensor core data types), Google's TPU
documentation (matrix units take bfloat16), Intel's and AMD's instruction set references (AMX-BF16, AMX-FP16,
AVX512-BF16).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from pipeline.machine.hardware import Hardware
from pipeline.study.variant import expected_dtypes

Speed = Literal["in hardware", "in part", "emulated", "no"]


class Device(NamedTuple):
    """The way a class of devices computes with float16, bfloat16 and TF32. The first that fits a device is its row."""

    name: str
    float16: Speed
    bfloat16: Speed
    tf32: Speed
    note: str
    fits: Callable[[Hardware], bool]


def _gpu(capability: float) -> Callable[[Hardware], bool]:
    return lambda hardware: hardware.kind == "nvidia_gpu" and (hardware.compute_capability or 0) >= capability


def _cpu(*features: str) -> Callable[[Hardware], bool]:
    return lambda hardware: hardware.kind == "cpu" and {*features} <= {*(hardware.cpu_features or ())}


_YES: Speed = "in hardware"
_PART: Speed = "in part"
_SLOW: Speed = "emulated"
_BLACKWELL = "XLA of TensorFlow 2.21 fails on 12.0"
_PASCAL = "no matrix units; less memory traffic is all there is to gain"
_TPU = "float32 products are bfloat16 inside unless the highest precision is asked for"
_AVX = "large dense layers may gain in bfloat16, convolutions may not"
_XPU = "no longer installable: Intel's extension ended with TensorFlow 2.15"
DEVICES = (
    Device("NVIDIA, compute capability 10.0 and up (Blackwell)", _YES, _YES, _YES, _BLACKWELL, _gpu(10.0)),
    Device("NVIDIA, 8.0 to 9.0 (Ampere, Ada, Hopper)", _YES, _YES, _YES, "", _gpu(8.0)),
    Device("NVIDIA, 7.0 to 7.5 (Volta, Turing)", _YES, _SLOW, "no", "", _gpu(7.0)),
    Device("NVIDIA, below 7.0 (Pascal and older)", _PART, _SLOW, "no", _PASCAL, _gpu(0.0)),
    Device("Google TPU", _SLOW, _YES, "no", _TPU, lambda hardware: hardware.kind == "tpu"),
    Device("CPU with AMX-FP16", _YES, _YES, "no", "", _cpu("amx_fp16", "amx_bf16")),
    Device("CPU with AMX-BF16", _SLOW, _YES, "no", "", _cpu("amx_bf16")),
    Device("CPU with AVX512-BF16", _SLOW, _PART, "no", _AVX, _cpu("avx512_bf16")),
    Device("CPU without AMX-BF16 and AVX512-BF16", _SLOW, _SLOW, "no", "", _cpu()),
    Device("Intel GPU (XPU)", _YES, _YES, "no", _XPU, lambda hardware: hardware.kind == "intel_gpu"),
)


def device_of(hardware: Hardware) -> Device:
    """Return the row of the table that `hardware` belongs to: the first that fits. Every CPU and NVIDIA GPU has one."""
    return next(device for device in DEVICES if device.fits(hardware))


def speed(policy: str, tf32: bool, hardware: Hardware) -> Speed:
    """Return how `hardware` multiplies under a policy."""
    device = device_of(hardware)
    rounded = device.bfloat16 if hardware.kind == "tpu" else device.tf32  # what float32 products round to there
    speeds: dict[str, Speed] = {
        "float32": rounded if tf32 else "in hardware",
        "float16": device.float16,
        "bfloat16": device.bfloat16,
        "float8": "in hardware" if (hardware.compute_capability or 0) >= 8.9 else "emulated",
    }
    return speeds[expected_dtypes(policy).compute]
