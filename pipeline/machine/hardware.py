"""Find the class of hardware that a study ran on, or would run on here, without loading an engine."""

import contextlib
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pynvml

from pipeline.study.policies import FORMATS

# CPU flags, by their Linux names, for vector units and for units that multiply 16-bit floats.
CPU_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16")
PCI_DEVICES = Path("/sys/bus/pci/devices")
TPU_PCI_DEVICES = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")


class Hardware(NamedTuple):
    """Describe a device. `memory_bytes` is the memory of an accelerator. Unknown values are None."""

    kind: Literal["cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    name: str
    compute_capability: float | None = None
    memory_bytes: int | None = None
    cpu_features: tuple[str, ...] | None = None
    uuid: str | None = None

    def multiplies(self, number_format: str) -> bool:
        """Return whether this hardware multiplies in `number_format`, one of `FORMATS`.

        Other hardware computes with wider numbers.
        """
        needed = FORMATS[number_format]
        if self.kind == "nvidia_gpu":
            return (self.compute_capability or 0.0) >= needed.min_compute_capability
        if self.kind == "tpu":
            return needed.is_on_tpu
        return needed.cpu_features == () or bool({*(needed.cpu_features or ())} & {*(self.cpu_features or ())})


def hardware_of(environment: Mapping[str, Any]) -> Hardware:
    """Return the first accelerator of `environment`, or else the CPU.

    Args:
        environment: as `pipeline.machine.environment.environment_here` returns it.
    """
    for accelerator in environment["accelerators"]:
        if accelerator["kind"] == "tpu":
            return Hardware("tpu", accelerator["name"])
        capability = accelerator["compute_capability"]
        return Hardware(
            kind="nvidia_gpu",
            name=accelerator["name"],
            compute_capability=float(capability) if capability else None,
            memory_bytes=accelerator.get("memory_bytes"),
        )
    return _cpu(environment["cpu"] or environment["machine"], environment.get("cpu_features"))


def device_name(environment: Mapping[str, Any]) -> str:
    """Return the name of the device that a run trained on: its accelerators, or else its CPU.

    A CPU's name includes the number of cores and the 16-bit features. Virtual machines use one name for several
    generations of CPUs, of which only some multiply 16-bit floats in hardware.

    Args:
        environment: as `pipeline.machine.environment.environment_here` returns it.
    """
    accelerators = [accelerator["name"] for accelerator in environment.get("accelerators", [])]
    cpu = environment.get("cpu") or environment.get("machine") or "unknown CPU"
    features = [each.upper().replace("_", "-") for each in environment.get("cpu_features") or [] if "16" in each]
    return ", ".join(accelerators or [cpu, f"{environment.get('num_cpus', 'unknown')} cores", *features])


def this_machine() -> Hardware:
    """Return this machine's first NVIDIA GPU, else its TPU, else its CPU."""
    for gpu in gpus():
        return gpu
    if has_tpu():
        return Hardware("tpu", "TPU")
    return this_cpu()


def this_cpu() -> Hardware:
    return _cpu(cpu_model() or platform.machine(), cpu_features())


def _cpu(name: str, features: Sequence[str] | None) -> Hardware:
    return Hardware("cpu", name, cpu_features=None if features is None else tuple(features))


def gpus() -> list[Hardware]:
    """List the NVIDIA GPUs that this process may use. Without a driver, the list is empty."""
    return ask_driver()[0]


def ask_driver() -> tuple[list[Hardware], str | None]:
    """Return the NVIDIA GPUs that this process may use, and the driver's error message, or None without an error.

    A missing driver is not an error.
    """
    found: list[Hardware] = []
    try:
        for gpu in _visible_gpus():
            is_part = pynvml.nvmlDeviceIsMigDeviceHandle(gpu)
            whole = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu) if is_part else gpu
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(whole)
            found.append(
                Hardware(
                    "nvidia_gpu",
                    str(pynvml.nvmlDeviceGetName(gpu)),
                    float(f"{major}.{minor}"),
                    int(pynvml.nvmlDeviceGetMemoryInfo(gpu).total),
                    uuid=str(pynvml.nvmlDeviceGetUUID(gpu)),
                )
            )
    except pynvml.NVMLError_LibraryNotFound:
        pass
    except pynvml.NVMLError as error:
        return found, str(error)
    return found, None


def visible_gpus() -> list[Any]:
    """Return handles of the GPUs that this process may use, in the order in which the engine counts the GPUs.

    The handles are those of NVML, NVIDIA's library for managing GPUs. CUDA_VISIBLE_DEVICES names the GPUs by index or
    UUID. CUDA stops at the first index that fits no GPU. If there is no driver or the driver reports an error, the list
    is empty.
    """
    with contextlib.suppress(pynvml.NVMLError):
        return list(_visible_gpus())
    return []


def _visible_gpus() -> Iterator[Any]:
    """Yield the handles that `visible_gpus` returns. Raise `NVMLError` if the driver reports an error."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    pynvml.nvmlInit()
    gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if names is None:
        yield from gpus
        return
    for name in names.split(","):
        if name.startswith(("GPU-", "MIG-")):  # MIG: a part of a GPU
            yield pynvml.nvmlDeviceGetHandleByUUID(name)
        elif name.isdigit() and int(name) < len(gpus):
            yield gpus[int(name)]
        else:
            break


def free_gpu_bytes() -> int | None:
    """Return the free memory, in bytes, of the first GPU that this process may use.

    Return None if there is no GPU or the driver can't tell.
    """
    for gpu in visible_gpus()[:1]:
        with contextlib.suppress(pynvml.NVMLError):
            return int(pynvml.nvmlDeviceGetMemoryInfo(gpu).free)
    return None


def has_tpu() -> bool:
    """Return whether a TPU (v3 to v7) is on this machine's PCI bus. The device numbers are those in JAX 0.10."""
    for device in PCI_DEVICES.glob("*"):
        with contextlib.suppress(OSError):
            vendor, number = ((device / name).read_text(encoding="utf-8").strip() for name in ("vendor", "device"))
            if vendor == "0x1ae0" and number in TPU_PCI_DEVICES:
                return True
    return False


def driver() -> str | None:
    """Return the version of NVIDIA's driver, or None if there is no driver or the driver reports an error."""
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return None


def cpu_model() -> str | None:
    return _proc_cpuinfo("model name") or platform.processor() or None


def cpu_features() -> list[str] | None:
    """Return those of `CPU_FEATURES` that this CPU has, or None if the system does not list the CPU's flags."""
    flags = _proc_cpuinfo("flags")
    return None if flags is None else [feature for feature in CPU_FEATURES if feature in flags.split()]


def _proc_cpuinfo(field: str) -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(rf"^{field}\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else None
