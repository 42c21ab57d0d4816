"""How full the device is: each variant trains for some seconds, in a process of its own, on images drawn at random.

Prints a line a variant, and all of them as JSON in the last line. What can't be measured here is null, and
`not_measured` says why. On a GPU it is the sources' scale of conf/base.yaml, on a CPU the study of params.yaml.

    images_per_second    of training by `fit`, the median of the repeats
    input_bound_share    the part of that time which goes where every batch is one that lies ready in the host's memory
    compile_seconds      of the first step, less a later one
    flops_per_second     of the forward pass's products times three (a backward pass makes twice as many); 2 a product
    share_of_peak        of the device's arithmetic in the variant's type, by its data sheet
    joules_per_epoch     of the whole GPU, by its own counter, for the benchmark's number of training examples
"""

import argparse
import contextlib
import functools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from bench.costs import machine
from bench.runs import CIFAR, MNIST
from pipeline.benchmark import Benchmark
from pipeline.errors import InputError
from pipeline.hardware import gpus
from pipeline.study import load_study
from pipeline.variant import Variant
from stages import choose_engine, run

IMAGE_SHAPES = {MNIST: (28, 28, 1, 10), CIFAR: (32, 32, 3, 100)}  # height, width, channels, classes
REPEATS = 5
VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {"policy": "float32"},
    "tf32": {"policy": "float32", "tf32": True},
    "mixed_float16": {"policy": "mixed_float16"},
    "mixed_bfloat16": {"policy": "mixed_bfloat16"},
}
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
    rows = []
    for name in (MNIST, CIFAR):
        for variant, changes in VARIANTS.items():
            if "tf32" in changes and arguments.device == "cpu":
                continue
            for multiplier in (1, 2):
                settings = {"name": name, "device": arguments.device, "engine": arguments.engine}
                settings |= {"variant": changes | {"batch_multiplier": multiplier}, "seconds": arguments.seconds}
                row = {"benchmark": name, "variant": variant + "_2x" * (multiplier - 1)} | _in_its_own_process(settings)
                print(", ".join(f"{field} {_shown(value)}" for field, value in row.items()), flush=True)
                rows.append(row)
    result = {"schema_version": 1, "machine": machine(), "variants": rows}
    print(json.dumps(result | {"not_measured": _not_measured(rows)}))


def _in_its_own_process(settings: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.device", "--measure", json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{settings['name']} {settings['variant']}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, variant: dict[str, Any], device: str, engine: str, seconds: float) -> dict[str, Any]:
    """What the head of this module names, of one variant of one benchmark, in about `seconds` after compilation."""
    chosen = Variant.model_validate(variant | {"jit_compile": engine == "jax"})
    benchmark = _benchmark(name, device)
    choose_engine(engine)
    import numpy as np

    from pipeline import building, loops  # the engine takes seconds to import
    from pipeline import engine as keras_engine
    from pipeline.batches import ShuffledBatches
    from pipeline.datasets import Examples

    *shape, num_classes = IMAGE_SHAPES[name]
    generator = np.random.default_rng(0)
    batch_size = benchmark.batch_size * chosen.batch_multiplier

    def examples(num_steps: int) -> Examples:
        count = num_steps * batch_size
        images = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
        return Examples(images, generator.integers(0, num_classes, count))

    class Ready(ShuffledBatches):
        """As many batches, each of them the same one, which lies ready."""

        @functools.lru_cache(1)  # noqa: B019  it lives as long as the process
        def _first(self) -> Any:
            return super().__getitem__(0)

        def __getitem__(self, index: int) -> Any:
            return self._first()

    keras_engine.set_tf32(chosen.tf32)
    model, _ = building.build_model(benchmark, chosen.policy, num_classes, shape[-1], seed=0)
    building.compile_model(model, benchmark, chosen)

    def timed(of: ShuffledBatches) -> float:
        keras_engine.synchronise()
        started = time.perf_counter()
        loops.fit(model, of, range(1), [])
        keras_engine.synchronise()
        return time.perf_counter() - started

    one_call = ShuffledBatches(examples(benchmark.steps_per_execution), batch_size, seed=0)
    first, second = timed(one_call), timed(one_call)
    step_seconds = timed(one_call) / benchmark.steps_per_execution
    num_steps = min(max(2, math.ceil(seconds / (2 * REPEATS) / step_seconds)), 2**30 // (batch_size * math.prod(shape)))
    several = examples(max(num_steps, 1))
    epoch, ready = (kind(several, batch_size, seed=0) for kind in (ShuffledBatches, Ready))
    keras_engine.reset_peak_memory()
    joules = _joules()
    pairs = [(timed(epoch), timed(ready)) for _ in range(REPEATS)]
    used = None if joules is None else (_joules() or math.nan) - joules
    num_images = len(epoch) * batch_size
    images_per_second = num_images / median(real for real, _ in pairs)
    memory, kind = keras_engine.peak_memory()
    flops_per_second = 3 * forward_flops(model) * images_per_second
    peak = _peak(chosen)
    return {
        "batch_size": batch_size,
        "image_size": benchmark.image_size,
        "images_per_second": images_per_second,
        "input_bound_share": 1 - median(without / real for real, without in pairs),
        "compile_seconds": first - second,
        "flops_per_second": flops_per_second,
        "share_of_peak": peak and flops_per_second / peak,
        "peak_memory_bytes": memory,
        "peak_memory_kind": kind,
        "joules_per_epoch": used and used / (2 * REPEATS * num_images) * benchmark.split.num_train_examples,
    }


def _benchmark(name: str, device: str) -> Benchmark:
    if device == "cpu":
        return load_study().benchmarks[name]
    base = yaml.safe_load(Path("conf/base.yaml").read_text(encoding="utf-8"))
    return Benchmark.model_validate(base["benchmarks"][name])


def forward_flops(model: Any) -> int:
    """Floating-point operations of a Keras model's matrix products and convolutions, for one image."""
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "kernel")]
    return sum(2 * math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape) for layer in layers)


def _peak(variant: Variant) -> float | None:
    names = [gpu.name for gpu in gpus()]
    rates = next((rates for device, rates in PEAK_TERAFLOPS.items() if names and device in names[0].split()[1:]), None)
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
        "share_of_peak": "the peak of this device is not in the table of bench/device.py",
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
