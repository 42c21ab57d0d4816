"""Describe the machine, the packages and the container image that made a run."""

import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.machine.hardware import (
    Hardware,
    cpu_features,
    cpu_model,
    device_name,
    driver,
    gpus,
    this_cpu,
    this_machine,
)
from pipeline.study.engines import ENGINES

REQUIREMENTS = Path("requirements")
CODE = ("pipeline", "requirements", "stages")  # what affects a run, besides its study, data and model
NUM_CPUS = len(os.sched_getaffinity(0))  # counted before a run is limited to its share of the cores
VARIABLES = (  # prefixes of variables that change what libraries compute, or how fast
    *("CUBLAS_", "CUDA_LAUNCH_BLOCKING", "CUDNN_", "DNNL_", "GLIBC_TUNABLES", "JAX_", "KMP_", "LD_PRELOAD"),
    *("LIBTPU_INIT_ARGS", "MALLOC_", "MKL_", "NPROC", "NVIDIA_TF32_OVERRIDE", "OMP_", "ONEDNN_", "TF_CUDNN_"),
    *("TF_DETERMINISTIC_", "TF_GPU_", "TF_NUM_", "TF_SET_", "TF_XLA_", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR"),
)
IMAGE = Path("/etc/mixed-precision-image.json")  # written when a container image is built


def environment_here(
    accelerators: Sequence[Mapping[str, str]], packages: Mapping[str, str], kernels: str
) -> dict[str, Any]:
    """Describe this machine's software and hardware, ready for JSON. Unknown values are None.

    Args:
        accelerators: the accelerators that the engine uses.
        packages: the engine's packages, with their versions.
        kernels: the library whose kernels the engine computes with.
    """
    runtime = installed_engine()
    lock = REQUIREMENTS / f"{runtime}.txt"
    return {
        "python": platform.python_version(),
        "operating_system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpu_features": cpu_features(),
        "num_cpus": NUM_CPUS,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "accelerators": _identified(accelerators),
        "driver": driver(),
        "packages": {name: importlib.metadata.version(name) for name in ("keras", "numpy")} | dict(packages),
        "kernels": kernels,
        "variables": variables(),
        "runtime": runtime,
        "lock_sha256": hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else None,
        "image": image_identity(),
        **_git_state(),
    }


def training_hardware() -> Hardware:
    """Return what the installed engine trains on here: the accelerator if the engine is made for it, else the CPU."""
    hardware = this_machine()
    return hardware if ENGINES[installed_engine()].hardware == hardware.kind else this_cpu()


def device_name_here() -> str:
    """Return the device name that the records of runs made here contain. This loads no engine."""
    hardware = training_hardware()
    if hardware.kind == "tpu":
        return hardware.name
    on_gpus = gpus() if hardware.kind == "nvidia_gpu" else []
    accelerators = [{"kind": "gpu", "name": gpu.name, "compute_capability": ""} for gpu in on_gpus]
    return device_name(environment_here(accelerators, {}, ""))


def _identified(accelerators: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Add each accelerator's memory and UUID from its driver, which lists accelerators in the engine's order."""
    return [
        {**accelerator, "memory_bytes": gpu.memory_bytes, "uuid": gpu.uuid}
        if gpu and gpu.name == accelerator["name"]
        else {**accelerator, "memory_bytes": None, "uuid": None}
        for accelerator, gpu in itertools.zip_longest(accelerators, gpus()[: len(accelerators)])
    ]


def _git_state() -> dict[str, Any]:
    """Return the commit of this project's own repository, and the files of code that differ from it."""

    def git(*words: str) -> list[str]:
        command = ["git", "--no-optional-locks", *words]  # a run must not disturb a commit of the user's
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    try:
        folder, commit = git("rev-parse", "--show-toplevel", "HEAD")
        if Path(folder).resolve() == Path.cwd().resolve():  # otherwise another repository surrounds this folder
            changed = git("status", "--porcelain", "--untracked-files=all", "--", *CODE)
            return {"git_commit": commit, "git_changed": [line[3:] for line in changed]}
    except (OSError, ValueError, subprocess.CalledProcessError):
        pass
    return {"git_commit": None, "git_changed": []}


def variables() -> dict[str, str]:
    """Return the environment variables that change what libraries compute, or how fast."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}


def installed_engine() -> str:
    """Return which of `ENGINES` is installed.

    The container image names it, or else the file `ready` in .venv, or else the variable ENGINE. The default is cpu.
    """
    if image := image_identity():
        return str(image["target"])
    ready = Path(sys.prefix, "ready")
    said = ready.read_text(encoding="utf-8").strip() if ready.exists() else os.environ.get("ENGINE")
    if said and said not in ENGINES:
        raise InputError(f"ENGINE is one of {', '.join(ENGINES)}. Received: {said}")
    return said or "cpu"


def image_identity() -> dict[str, Any] | None:
    """Return the image's target, base and commit, whether the commit's files were changed, and its packages' SHA-256.

    Outside an image, return None. `digest` is the image's digest, from the variable IMAGE_DIGEST, or None.
    """
    if not IMAGE.exists():
        return None
    description: dict[str, Any] = json.loads(IMAGE.read_text(encoding="utf-8"))
    return description | {"digest": os.environ.get("IMAGE_DIGEST")}
