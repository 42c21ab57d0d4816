"""List which devices multiply which 16-bit formats in hardware.

Sources: NVIDIA's table of compute capabilities (CUDA C++ Programming Guide, tensor core data types), Google's TPU
documentation (matrix units take bfloat16), Intel's and AMD's instruction set references (AMX-BF16, AMX-FP16,
AVX512-BF16).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from pipeline.machine.hardware import Hardware
from pipeline.study.variant import POLICIES

Speed = Literal["in hardware", "in part", "emulated", "no"]


class Device(NamedTuple):
    """Say how a class of devices multiplies float16, bfloat16 and TF32."""

    float16: Speed
    bfloat16: Speed
    tf32: Speed
    fits: Callable[[Hardware], bool]


def _gpu(capability: float) -> Callable[[Hardware], bool]:
    return lambda hardware: hardware.kind == "nvidia_gpu" and (hardware.compute_capability or 0) >= capability


def _cpu(*features: str) -> Callable[[Hardware], bool]:
    return lambda hardware: hardware.kind == "cpu" and {*features} <= {*(hardware.cpu_features or ())}


_YES: Speed = "in hardware"
_PART: Speed = "in part"
_SLOW: Speed = "emulated"
# A device's row is the first that fits.
DEVICES = (
    Device(_YES, _YES, _YES, _gpu(8.0)),  # Ampere and later
    Device(_YES, _SLOW, "no", _gpu(7.0)),  # Volta, Turing
    Device(_PART, _SLOW, "no", _gpu(0.0)),
    Device(_SLOW, _YES, "no", lambda hardware: hardware.kind == "tpu"),
    Device(_YES, _YES, "no", _cpu("amx_fp16", "amx_bf16")),
    Device(_SLOW, _YES, "no", _cpu("amx_bf16")),
    Device(_SLOW, _PART, "no", _cpu("avx512_bf16")),
    Device(_SLOW, _SLOW, "no", _cpu()),
)


def device_of(hardware: Hardware) -> Device:
    """Return the first row of the table that fits `hardware`. Every CPU, NVIDIA GPU and TPU has one."""
    return next(device for device in DEVICES if device.fits(hardware))


def speed(policy: str, tf32: bool, hardware: Hardware) -> Speed:
    """Return how `hardware` multiplies under `policy`, with or without TF32."""
    device = device_of(hardware)
    rounded = device.bfloat16 if hardware.kind == "tpu" else device.tf32  # how fast rounded factors multiply
    speeds: dict[str, Speed] = {
        "float32": rounded if tf32 else "in hardware",
        "float16": device.float16,
        "bfloat16": device.bfloat16,
        "float8": "in hardware" if (hardware.compute_capability or 0) >= 8.9 else "emulated",
    }
    return speeds[POLICIES[policy].compute]
