"""What a run was made on and with."""

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from pipeline import engine

PACKAGES = ("keras", "numpy", "tensorflow")
LOCK = Path("requirements/cpu.txt")
# What decides whether a CPU multiplies 16-bit floats in hardware, by the names Linux gives.
CPU_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16")


def describe() -> dict[str, Any]:
    """Software and hardware of this machine and its load now, ready for JSON; what can't be known is None."""
    return {
        "python": platform.python_version(),
        "operating_system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpu_features": _cpu_features(),
        "num_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "accelerators": engine.accelerators(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "lock_sha256": hashlib.sha256(LOCK.read_bytes()).hexdigest() if LOCK.exists() else None,
        "git_commit": _git("rev-parse", "HEAD"),
        "load_average": os.getloadavg()[0],
    }


def _proc_cpuinfo(field: str) -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(rf"^{field}\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else None


def _cpu_model() -> str | None:
    return _proc_cpuinfo("model name") or platform.processor() or None


def _cpu_features() -> list[str] | None:
    flags = _proc_cpuinfo("flags")
    return None if flags is None else [feature for feature in CPU_FEATURES if feature in flags.split()]


def _git(*arguments: str) -> str | None:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
