"""What a run was made on and with."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from pipeline import engine, image
from pipeline.hardware import cpu_features, cpu_model, driver, gpus

LOCKS = Path("requirements")


def describe(runtime: str) -> dict[str, Any]:
    """Software and hardware of this machine and its load now, ready for JSON; what can't be known is None.

    Args:
        runtime: names the lock file of the packages that train.
    """
    lock = LOCKS / f"{runtime}.txt"
    return {
        "python": platform.python_version(),
        "operating_system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpu_features": cpu_features(),
        "num_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "accelerators": _accelerators(),
        "driver": driver(),
        "packages": {name: importlib.metadata.version(name) for name in ("keras", "numpy")} | engine.version(),
        "runtime": runtime,
        "lock_sha256": hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else None,
        "image": image.identity(),
        "git_commit": _git("rev-parse", "HEAD"),
        "load_average": os.getloadavg()[0],
    }


def _accelerators() -> list[dict[str, Any]]:
    """Those the engine uses, with the memory that their driver tells of."""
    memory = {gpu.name: gpu.memory_bytes for gpu in gpus()}
    return [accelerator | {"memory_bytes": memory.get(accelerator["name"])} for accelerator in engine.accelerators()]


def _git(*arguments: str) -> str | None:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
