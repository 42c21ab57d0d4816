"""How full the device is: each variant trains for some seconds, in a process of its own, on images drawn at random.

Prints a line a variant, and all of them as JSON in the last line. What can't be measured here is null, and
`not_measured` says why. On a GPU they are benchmarks and variants of the profile `paper`, on a CPU those of `quick`.

    images_per_second    of training, the median of epochs as the study has them, but no longer than a few seconds
    input_bound_share    the part of that time which goes where every batch is one that lies ready in the host's memory
    compile_seconds      of the first step, less a later one
    flops_per_second     of the forward pass's products times three (a backward pass makes twice as many); 2 a product
    share_of_peak        of the device's arithmetic in the variant's type, by its data sheet
    joules_per_epoch     of the machine's first GPU, by its own counter, for the benchmark's number of training examples
"""

import argparse
import contextlib
import functools
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.costs import machine
from bench.runs import CIFAR, MNIST, composed
from pipeline.errors import InputError
from pipeline.hardware import gpus
from pipeline.variant import Variant
from stages import choose_engine, run

IMAGE_SHAPES = {MNIST: (28, 28, 1, 10), CIFAR: (32, 32, 3, 100)}  # height, width, channels, classes
REPEATS = 5
PROFILES = {"cpu": "quick", "gpu": "paper"}
# Dense products a second, from NVIDIA's data sheets (SXM where there are several): 16-bit, TF32, float32.
PEAK_TERAFLOPS = {
    "H200": (989, 495, 67),
    "H100": (989, 495, 67),
    "A100": (312, 156, 19.5),
    "L4": (121, 60, 30.3),
    "T4": (65, None, 8.1),
    "V100": (125, None, 15.7),
}


def main(arguments: argparse.Namespace) -> None:
    if arguments.measure:
        print(json.dumps(measure(**json.loads(arguments.measure))))
        return
    names = [gpu.name for gpu in gpus()]
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
    """What the head of this module names, of one variant of one benchmark, in about `seconds` after compilation.

    Raises:
        InputError: the engine sees no GPU, and one was asked for.
    """
    study = composed(PROFILES[device])
    benchmark, chosen = study.benchmarks[name], study.variants[variant]
    if engine == "jax":
        chosen = chosen.model_copy(update={"jit_compile": True})
    choose_engine(engine)
    import keras
    import numpy as np

    from pipeline import building, loops  # the engine takes seconds to import
    from pipeline import engine as keras_engine
    from pipeline.batches import ShuffledBatches
    from pipeline.datasets import Examples

    if device == "gpu" and not keras_engine.accelerators():
        raise InputError("the driver shows a GPU, and the engine none: its packages are those for a CPU")
    *shape, num_classes = IMAGE_SHAPES[name]
    generator = np.random.default_rng(0)
    batch_size = benchmark.batch_size * chosen.batch_multiplier

    def batches(of: type[ShuffledBatches], num_steps: int) -> ShuffledBatches:
        count = num_steps * batch_size
        images = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
        return of(Examples(images, generator.integers(0, num_classes, count)), batch_size, seed=0)

    class Ready(ShuffledBatches):
        """As many batches, each of them the same one, which lies ready."""

        @functools.cached_property
        def _first(self) -> Any:
            return super().__getitem__(0)

        def __getitem__(self, index: int) -> Any:
            return self._first

    keras_engine.set_tf32(chosen.tf32)
    model, _ = building.build_model(benchmark, chosen.policy, num_classes, shape[-1], seed=0)
    building.compile_model(model, benchmark, chosen)

    def timed(of: ShuffledBatches, num_epochs: int) -> list[float]:
        started, found = [], []

        def begin(*_: Any) -> None:
            keras_engine.synchronise()
            started.append(time.perf_counter())

        def end(*_: Any) -> None:
            keras_engine.synchronise()
            found.append(time.perf_counter() - started[-1])

        clock = keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_epoch_end=end)
        loops.LOOPS[chosen.loop](model, of, range(num_epochs), [clock])
        return found

    at_once = benchmark.steps_per_execution
    first, *later = timed(batches(ShuffledBatches, at_once), 4)
    each = seconds / (2 * REPEATS)
    wanted = min(each / (min(later) / at_once), benchmark.split.num_train_examples / batch_size)
    num_steps = at_once * max(1, round(wanted / at_once))
    num_epochs = max(1, round(each / (min(later) / at_once * num_steps)))
    kinds = [batches(of, num_steps) for of in (ShuffledBatches, Ready)]
    keras_engine.reset_peak_memory()
    joules = _joules()
    turns = []
    for turn in range(REPEATS):
        order = (0, 1) if turn % 2 else (1, 0)
        taken = {kind: median(timed(kinds[kind], num_epochs)) for kind in order}
        turns.append((taken[0], taken[1]))
    used = None if joules is None else (_joules() or math.nan) - joules
    num_images = num_steps * batch_size
    images_per_second = num_images / median(real for real, _ in turns)
    memory, kind_of_memory = keras_engine.peak_memory()
    flops_per_second = 3 * forward_flops(model) * images_per_second
    peak = _peak(chosen)
    joules_per_image = used and used / (2 * REPEATS * num_epochs * num_images)
    return {
        "batch_size": batch_size,
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
    """Floating-point operations of a Keras model's matrix products and convolutions, for one image."""
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "kernel")]
    return sum(2 * math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape) for layer in layers)


def _peak(variant: Variant) -> float | None:
    names = [gpu.name for gpu in gpus()]
    rates = next(
        (rates for device, rates in PEAK_TERAFLOPS.items() if names and device in re.split(r"[\s-]", names[0])), None
    )
    if rates is None:
        return None
    rate = rates[1] if variant.tf32 else rates[2] if variant.policy == "float32" else rates[0]
    return rate and rate * 1e12


def _joules() -> float | None:
    """What the first GPU has used since its driver was loaded; None where nothing counts it (Volta and later do)."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0))) / 1000
    return None


def _not_measured(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    why = {
        "share_of_peak": "bench/device.py has no such peak of this device in its table",
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
