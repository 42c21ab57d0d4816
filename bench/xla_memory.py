"""Check the compiler's word where a step can run: what XLA says of its memory on this CPU, and what it takes.

It writes compiled/check.csv, a row a step. The compilers' Python runs it: .compilers/bin/python -m bench.xla_memory
"""

import argparse
import ctypes
import gc
import importlib.metadata
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pipeline.compiled.lowering import answer_of, training_step_of
from pipeline.compiled.programs import Step, recipes, step_of
from pipeline.compiled.schema import CHECK, COMPILED_FILES, CheckedStep, ProgramMemory
from pipeline.files.writing import csv_text
from pipeline.machine.hardware import cpu_model

# The sources' networks, in sizes that run in seconds on two cores.
IMAGE_SIZES = {"cifar100_efficientnet_b0": 64}
BATCHES = {"mnist_dense": (2048, 4096, 8192), "cifar100_efficientnet_b0": (16, 32, 64)}
NUM_STEPS = 3


def main() -> None:
    """Compile and run every step, each in a process of its own."""
    rows = []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for row in processes.map(check_step, steps()):
            print(f"{row.benchmark} {row.precision} {row.batch_size}: {row.ratio:.2f} of what it took", flush=True)
            rows.append(row.model_dump())
    (COMPILED_FILES / CHECK).write_text(csv_text(list(CheckedStep.model_fields), rows), encoding="utf-8")


def steps() -> list[Step]:
    found = []
    for name, benchmark in recipes().items():
        smaller = benchmark.model_copy(update={"image_size": IMAGE_SIZES.get(name, benchmark.image_size)})
        found += [step_of(name, smaller, n, size) for n in ("float32", "mixed_bfloat16") for size in BATCHES[name]]
    return found


def check_step(program: Step) -> CheckedStep:
    """Compile `program` for this CPU and run it twice, in a process that has not computed yet.

    The first time brings in threads and code that a process needs once. What is left of that, once its arrays are freed
    and handed back to the system, is the baseline of the second time.
    """
    os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    from pipeline import engine  # first, and late: it reads the environment

    # isort: split
    import jax

    jax_: Any = jax  # whose functions have no types
    engine.set_tf32(False)
    step, state = training_step_of(program)
    images = jax_.ShapeDtypeStruct((program.batch_size, *program.image_shape), "uint8")
    labels = jax_.ShapeDtypeStruct((program.batch_size,), "int32")
    compiled = step.lower(state, images, labels).compile()

    def peak_bytes() -> int:
        """Return how far the resident set rises from now on, while the step's arguments are made and it runs."""
        before = _free_and_count()
        arguments = jax_.tree.map(jax_.numpy.copy, state)
        batch = [jax_.numpy.zeros(each.shape, each.dtype) for each in (images, labels)]
        for _ in range(NUM_STEPS):
            arguments, *_others = jax_.block_until_ready(compiled(arguments, *batch))
        return _resident_bytes("VmHWM") - before

    before = _free_and_count()
    peak_bytes()
    once_bytes = _free_and_count() - before
    return CheckedStep(
        benchmark=program.benchmark,
        image_size=program.recipe["image_size"],
        precision=program.precision,
        batch_size=program.batch_size,
        compiled_bytes=ProgramMemory(**answer_of(compiled)["memory"], peak=None).total,
        measured_bytes=peak_bytes(),
        once_bytes=max(once_bytes, 0),
        cpu=cpu_model(),
        jax=importlib.metadata.version("jax"),
        day=datetime.now(UTC).date(),
    )


def _free_and_count() -> int:
    """Hand what is free back to the system; return the resident set, whose peak counts from now on."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _resident_bytes("VmRSS")


def _resident_bytes(name: str) -> int:
    """Return a field of this process's status on Linux: VmRSS is its resident set, VmHWM the peak of that."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m bench.xla_memory", description=__doc__).parse_args()
    main()
