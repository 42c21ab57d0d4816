"""Describe the machine, the packages and the container image with which a run is made."""

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
CODE = ("pipeline", "requirements", "stages")  # folders that affect a run, besides its study, data and model
NUM_CPUS = len(os.sched_getaffinity(0))  # counted before a run is limited to its share of the cores
VARIABLES = (  # prefixes of environment variables that change libraries' results or speed
    *("CUBLAS_", "CUDA_LAUNCH_BLOCKING", "CUDNN_", "DNNL_", "GLIBC_TUNABLES", "JAX_", "KMP_", "LD_PRELOAD"),
    *("LIBTPU_INIT_ARGS", "MALLOC_", "MKL_", "NPROC", "NVIDIA_TF32_OVERRIDE", "OMP_", "ONEDNN_", "TF_CUDNN_"),
    *("TF_DETERMINISTIC_", "TF_GPU_", "TF_NUM_", "TF_SET_", "TF_XLA_", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR"),
)
IMAGE = Path("/etc/mixed-precision-image.json")  # written when a container image is built


def environment_here(
    accelerators: Sequence[Mapping[str, str]], packages: Mapping[str, str], kernels: str
) -> dict[str, Any]:
    """Describe this machine's software and hardware in a dictionary that can be written as JSON.

    Unknown values are None.

    Args:
        accelerators: the accelerators that the engine uses, from `pipeline.engine.accelerators`.
        packages: the versions of the engine's packages, by name.
        kernels: the name of the library or compiler from which the engine's kernels come.
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
    """Return the hardware on which the installed engine trains: the accelerator that it is made for, else the CPU."""
    hardware = this_machine()
    return hardware if ENGINES[installed_engine()].hardware == hardware.kind else this_cpu()


def device_name_here() -> str:
    """Return the name of the device as it stands in the records of runs made here. Load no engine."""
    hardware = training_hardware()
    if hardware.kind == "tpu":
        return hardware.name
    on_gpus = gpus() if hardware.kind == "nvidia_gpu" else []
    accelerators = [{"kind": "gpu", "name": gpu.name, "compute_capability": ""} for gpu in on_gpus]
    return device_name(environment_here(accelerators, {}, ""))


def _identified(accelerators: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the accelerators, each with its memory in bytes and its UUID added, or with None for both.

    The values come from NVIDIA's driver, which lists the GPUs in the same order as the engine.
    """
    return [
        {**accelerator, "memory_bytes": gpu.memory_bytes, "uuid": gpu.uuid}
        if gpu and gpu.name == accelerator["name"]
        else {**accelerator, "memory_bytes": None, "uuid": None}
        for accelerator, gpu in itertools.zip_longest(accelerators, gpus()[: len(accelerators)])
    ]


def _git_state() -> dict[str, Any]:
    """Return the commit of this project's own repository, and the files in `CODE` that differ from the commit."""

    def git(*words: str) -> list[str]:
        command = ["git", "--no-optional-locks", *words]  # a run must not disturb the user's commits
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
    """Return the environment variables that change libraries' results or speed."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}


def installed_engine() -> str:
    """Return the name of the installed engine, one of `ENGINES`.

    The name comes from the description of the container image, or else from the file `ready` in the virtual
    environment, or else from the environment variable ENGINE. The default is `cpu`.

    Raises:
        InputError: the name in the file or the variable is not one of `ENGINES`.
    """
    if image := image_identity():
        return str(image["target"])
    ready = Path(sys.prefix, "ready")
    said = ready.read_text(encoding="utf-8").strip() if ready.exists() else os.environ.get("ENGINE")
    if said and said not in ENGINES:
        raise InputError(f"ENGINE is one of {', '.join(ENGINES)}. Received: {said}")
    return said or "cpu"


def image_identity() -> dict[str, Any] | None:
    """Return the description of the container image in which this process runs, or None outside an image.

    `target` is the image's engine, and `base` is the image on which it is built. `content_sha256` is a digest of the
    lists of its packages. `commit` is this project's commit, and `dirty` says whether the project's files differed from
    the commit. `digest` is the image's digest from the environment variable IMAGE_DIGEST, or None.
    """
    if not IMAGE.exists():
        return None
    description: dict[str, Any] = json.loads(IMAGE.read_text(encoding="utf-8"))
    return description | {"digest": os.environ.get("IMAGE_DIGEST")}
