"""Digests of the code and packages that decide what is compiled and what is read off it. It needs no engine."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pipeline.compiled.programs import RECIPES, recipes
from pipeline.errors import InputError
from pipeline.files.code import file_digest

# What makes and compiles a program, then what chooses programs and reads them.
STEP_CODE = (
    "pipeline/compiled/lowering.py",
    "pipeline/engine/jax_steps.py",
    "pipeline/engine/on_jax.py",
    "pipeline/models/__init__.py",
    "pipeline/models/application.py",
    "pipeline/models/dense.py",
    "pipeline/models/efficientnet.py",
    "pipeline/models/imported.py",
    "pipeline/models/resnet9.py",
    "pipeline/study/variant.py",
    "pipeline/training/building.py",
    "pipeline/training/precision.py",
)
READING_CODE = (
    "pipeline/compiled/making.py",
    "pipeline/compiled/programs.py",
    "pipeline/compiled/targets.py",
    "pipeline/compiled/optimised.py",
    "pipeline/compiled/reading.py",
    "pipeline/compiled/schema.py",
)
COMPILERS_LOCK = "requirements/compiled.txt"


def source_digests(root: Path = Path()) -> dict[str, str]:
    """Return the SHA-256 of each source of `compiled/<target>.json`.

    Comments and docstrings of code count for nothing, and of the configuration the benchmarks' recipes alone.
    """
    code = {path: file_digest(root / path) for path in (*STEP_CODE, *READING_CODE)}
    return code | {
        str(RECIPES): recipes_digest(describe_recipes(root)),
        COMPILERS_LOCK: hashlib.sha256((root / COMPILERS_LOCK).read_bytes()).hexdigest(),
    }


def describe_recipes(root: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return the recipes under `root` that are compiled, by benchmark.

    Raises:
        InputError: their file is missing or damaged.
    """
    try:
        return {str(name): recipe.model_dump(mode="json") for name, recipe in recipes(root).items()}
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{root / RECIPES} has no benchmarks. Get it back with: git checkout -- {RECIPES}") from None


def recipes_digest(described: dict[str, dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()
