"""Measure how full the device is.

Each variant trains for some seconds, in a process of its own, on images drawn at random.

Prints a line a variant, and all of them as JSON in the last line. What can't be measured here is null, and
`not_measured` says why. On a GPU they are benchmarks and variants of the profile `paper`, on a CPU those of `quick`.

    images_per_second    of training, the median of epochs as the study has them, but no longer than a few seconds
    input_bound_share    the part of that time which goes where every batch is one that lies ready in the host's memory
    compile_seconds      of the first step, less a later one
    flops_per_second     of the forward pass's products times three (a backward pass makes twice as many); 2 a product
    share_of_peak        of the device's arithmetic in the variant's type, by its data sheet
    joules_per_epoch     of the GPU that trains, by its own counter, for the benchmark's number of training examples
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from bench import gpu
from bench.costs import machine
from bench.runs import CIFAR, MNIST, composed
from pipeline.errors import InputError
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.hardware import gpus
from stages import run

IMAGE_SHAPES = {MNIST: (28, 28, 1, 10), CIFAR: (32, 32, 3, 100)}  # height, width, channels, classes
REPEATS = 5
PROFILES = {"cpu": "quick", "gpu": "paper"}


def main(arguments: argparse.Namespace) -> None:
    if arguments.measure:
        print(json.dumps(measure(**json.loads(arguments.measure))))
        return
    names = [found.name for found in gpus()]
    if arguments.device == "gpu" and not names:
        raise InputError("--device: gpu asked for, and NVIDIA's driver shows none here. cpu measures this machine's.")
    surroundings, rows, failed = machine(), [], []
    study = composed(PROFILES[arguments.device])
    for name in study.benchmarks:
        for variant in study.variants_of(name):
            settings = {"name": name, "variant": variant}
            settings |= {key: getattr(arguments, key) for key in ("device", "engine", "seconds")}
            try:
                row = settings | _in_its_own_process(settings)
            except RuntimeError as error:
                failed.append({"name": f"{name} {variant}", "reason": str(error)})
                print(f"{name} {variant} FAILED: {error}", flush=True)
                continue
            print(", ".join(f"{field} {_shown(value)}" for field, value in row.items()), flush=True)
            rows.append(row)
    result = {"schema_version": 2, "machine": surroundings, "variants": rows}
    print(json.dumps(result | {"not_measured": failed + _not_measured(rows)}))


def _in_its_own_process(settings: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.device", "--measure", json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:  # not enough memory, say
        raise RuntimeError(done.stderr.strip()[-1000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, variant: str, device: str, engine: str, seconds: float) -> dict[str, Any]:
    """Return what the head of this module names, of one variant of one benchmark, in about `seconds` once compiled.

    Raises:
        InputError: the engine sees no GPU, and one was asked for.
    """
    study = composed(PROFILES[device])
    benchmark, chosen = study.benchmarks[name], study.variants[variant]
    if engine == "jax":
        chosen = chosen.model_copy(update={"jit_compile": True})
    choose_engine(engine, [chosen.policy])
    import pipeline.engine  # which takes seconds to import
    from bench import epochs

    if device == "gpu" and not pipeline.engine.accelerators():
        raise InputError("the driver shows a GPU, and the engine none: its packages are those for a CPU")
    training = epochs.Epochs(benchmark, chosen, IMAGE_SHAPES[name])
    at_once = benchmark.steps_per_execution
    first, *later = training.seconds(training.batches(at_once), 4)
    each = seconds / (2 * REPEATS)
    wanted = min(each / (min(later) / at_once), benchmark.split.num_train_examples / training.batch_size)
    num_steps = at_once * max(1, round(wanted / at_once))
    num_epochs = max(1, round(each / (min(later) / at_once * num_steps)))
    kinds = [training.batches(num_steps), training.batches(num_steps, ready=True)]
    pipeline.engine.reset_peak_memory()
    trainer = gpu.gpu_of(pipeline.engine.gpu_places())
    joules = gpu.joules(trainer)
    turns = []
    for turn in range(REPEATS):
        order = (0, 1) if turn % 2 else (1, 0)
        taken = {kind: median(training.seconds(kinds[kind], num_epochs)) for kind in order}
        turns.append((taken[0], taken[1]))
    used = None if joules is None else (gpu.joules(trainer) or math.nan) - joules
    num_images = num_steps * training.batch_size
    images_per_second = num_images / median(real for real, _ in turns)
    memory, kind_of_memory = pipeline.engine.peak_memory()
    flops_per_second = 3 * forward_flops(training.model) * images_per_second
    peak = gpu.peak(chosen, gpu.name(trainer))
    joules_per_image = used and used / (2 * REPEATS * num_epochs * num_images)
    return {
        "batch_size": training.batch_size,
        "image_size": benchmark.image_size,
        "steps": num_steps,
        "epochs": REPEATS * num_epochs,
        "images_per_second": images_per_second,
        "input_bound_share": 1 - median(ready / real for real, ready in turns),
        "compile_seconds": first - min(later),
        "flops_per_second": flops_per_second,
        "share_of_peak": peak and flops_per_second / peak,
        "peak_memory_bytes": memory,
        "peak_memory_kind": kind_of_memory,
        "joules_per_epoch": joules_per_image and joules_per_image * benchmark.split.num_train_examples,
    }


def forward_flops(model: Any) -> int:
    """Count the floating-point operations of a Keras model's matrix products and convolutions, for one image."""
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "kernel")]
    return sum(2 * math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape) for layer in layers)


def _not_measured(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    why = {
        "share_of_peak": "bench/gpu.py has no such peak of this device in its table",
        "joules_per_epoch": "nothing here counts energy",
    }
    return [{"name": name, "reason": why[name]} for name in why if any(row[name] is None for row in rows)]


def _shown(value: Any) -> str:
    shown: Callable[[Any], str] = (lambda number: f"{number:.4g}") if isinstance(value, float) else str
    return shown(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.device", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--engine", choices=["tensorflow", "jax"], default="tensorflow")
    parser.add_argument("--seconds", type=float, default=30.0, help="of measuring each variant, about")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    run(main, parser)
