"""Arrange what was compiled for hardware that is not here: a row a target."""

from collections.abc import Sequence
from typing import Any

from pipeline.compiled.answers import memory_ratio, multiplied_in
from pipeline.compiled.schema import CheckedStep, CompiledProgram, CompiledTarget
from pipeline.numbers import UNKNOWN, listed, mebibytes, span

# The sources' own recipes, which are compiled whatever a study trains.
NAMES = {
    "mnist_dense": "MNIST, dense network of 4,096 units",
    "cifar100_efficientnet_b0": "CIFAR-100, EfficientNet-B0",
}


def hardware_elsewhere(
    compiled: Sequence[CompiledTarget], checked: Sequence[CheckedStep] = ()
) -> dict[str, Any] | None:
    """Return the table of the section; None where nothing was compiled."""
    if not compiled:
        return None
    sizes: dict[str, int] = {}
    for program in (program for made in compiled for program in made.programs if program.precision == "float32"):
        sizes[program.benchmark] = min(program.batch_size, sizes.get(program.benchmark, program.batch_size))
    rows = [
        {"target": made.title, "cells": [_cell(made, name, size) for name, size in sizes.items()]} for made in compiled
    ]
    return {
        "benchmarks": [(NAMES.get(name, name), size) for name, size in sizes.items()],
        "rows": rows,
        "in_8_bits": describe_8_bits(compiled),
        "checked": describe_check(checked),
        "versions": {key: value for made in compiled for key, value in made.versions.items()},
    }


def describe_8_bits(compiled: Sequence[CompiledTarget]) -> str:
    """Say what float8 makes of a step: its products, and its memory; nothing where none was compiled in it."""
    found = [(made, program) for made in compiled for program in made.programs if program.precision == "float8"]
    told = []
    for name in dict.fromkeys(program.benchmark for _, program in found):
        shares, ratios, titles = [], [], []
        for made, program in found:
            ratio = memory_ratio(made, name, "float8", program.batch_size)
            if program.benchmark == name and ratio is not None:
                shares.append("{} of {}".format(*multiplied_in(program, 8)))
                ratios.append(round(ratio, 2))
                titles.append(made.title)
        if shares:
            told.append(
                f"{NAMES.get(name, name)}, under float8: {listed(dict.fromkeys(shares))} products are in 8 bits, and a "
                f"step takes {span(ratios)} times the memory of float32 ({' · '.join(dict.fromkeys(titles))})."
            )
    return " ".join(told)


def describe_check(checked: Sequence[CheckedStep]) -> str:
    """Say how far off the compiler is on a CPU, where its steps ran; nothing where nobody tried."""
    if not checked:
        return ""
    told = []
    for name, size in dict.fromkeys((step.benchmark, step.image_size) for step in checked):
        steps = [step for step in checked if step.benchmark == name]
        batches = [f"{each:,}" for each in sorted({step.batch_size for step in steps})]
        what = f"{NAMES.get(name, name)}, {size} × {size}, batches {', '.join(batches)}"
        told.append(f"{span([round(step.ratio, 2) for step in steps])}× ({what})")
    kept = span([round(step.once_bytes / 2**20) for step in checked])
    first, precisions = checked[0], " and ".join(dict.fromkeys(step.precision for step in checked))
    return (
        f"Checked where a step can run, on a CPU ({first.cpu}, JAX {first.jax}, {first.day}), in {precisions}: "
        f"of the memory that a step took, its compiler says {' and '.join(told)}. The process itself keeps another "
        f"{kept} MiB after the first step."
    )


def _cell(made: CompiledTarget, benchmark: str, batch_size: int) -> dict[str, Any]:
    """Return what the compiler says of a benchmark in float32 and in 16 bits, at B and at 2B."""
    both = ("float32", "mixed_bfloat16" if made.kind == "tpu" else "mixed_float16")
    program = made.find(benchmark, both[1], batch_size)
    told = [_mebibytes(made, made.find(benchmark, each, n * batch_size)) for n in (1, 2) for each in both]
    ratio = memory_ratio(made, benchmark, both[1], batch_size)
    told[1] += "" if ratio is None else f" ({ratio:.2f}×)"
    return {
        "mebibytes": told,
        "in_16_bits": multiplied_in(program, 16) if program and program.memory else None,
    }


def _mebibytes(made: CompiledTarget, program: CompiledProgram | None) -> str:
    if program is None:
        return UNKNOWN
    if program.memory is None:
        return "does not fit" if made.fits(program) is False else "refused"
    return mebibytes(program.memory.total) + ("" if made.fits(program) else ", does not fit")
