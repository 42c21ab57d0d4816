"""Profile training steps on a CPU: what each kind of operation takes, and which kernel of oneDNN computes it.

TensorFlow's profiler times every operation, oneDNN's own log names the kernels inside. Both cost time themselves, so
that a process that profiles times nothing else.
"""

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.machine.engine_choice import choose_engine
from pipeline.records.step_profile import KINDS, Kind, ProfiledKind
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Variant

NUM_WARMUP_STEPS, NUM_STEPS = 2, 3
# A part of the name of an operation's type, and its kind, in the order in which they are asked.
KIND_OF: tuple[tuple[str, Kind], ...] = (
    ("Depthwise", "depthwise convolution"),
    ("Conv2D", "convolution"),
    ("MatMul", "matrix product"),
    ("BatchNorm", "batch norm"),
    ("Cast", "cast"),
    ("IsFinite", "optimizer and loss scale"),
)
PRIMITIVES: dict[str, Kind] = {
    "convolution": "convolution",
    "inner_product": "matrix product",
    "matmul": "matrix product",
    "batch_normalization": "batch norm",
}
CALLS = ("If", "StatelessIf", "While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall")


def profile_step(name: str, benchmark: Benchmark, variant: Variant) -> list[ProfiledKind]:
    """Profile a step of `variant`, in a process that has not loaded the engine; nothing where memory is too small.

    Args:
        name: the benchmark's.
    """
    choose_engine("tensorflow", [variant.policy])
    os.environ["ONEDNN_VERBOSE"] = "1"
    from pipeline import engine  # noqa: I001  first, and late: it reads the environment
    import numpy as np
    import tensorflow as tf

    from pipeline.data.datasets import load_dataset
    from pipeline.training.building import build_model, compile_model

    data = load_dataset(benchmark.dataset, benchmark.split)
    model, _ = build_model(benchmark, variant.policy, data.num_classes, data.num_channels, seed=0)
    compile_model(model, benchmark.model_copy(update={"steps_per_execution": 1}), variant)
    batch_size = benchmark.batch_size * variant.batch_multiplier
    rows = np.arange(batch_size) % len(data.train.labels)
    images, labels = data.train.images[rows], data.train.labels[rows]

    def train(num_steps: int) -> None:
        for _ in range(num_steps):
            model.train_on_batch(images, labels)

    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        try:
            with _printing_to(folder / "warmup"):
                train(NUM_WARMUP_STEPS)
            with _printing_to(folder / "onednn"), tf.profiler.experimental.Profile(name_of_folder):
                train(NUM_STEPS)
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
            return []
        (trace,) = folder.glob("**/*.xplane.pb")
        events = list(_events(trace.read_bytes()))
        kernels = slowest_kernels((folder / "onednn").read_text(encoding="utf-8", errors="replace"))
    scopes = {model.optimizer.name, getattr(model.optimizer, "inner_optimizer", model.optimizer).name, "cond"}
    spent: Counter[Kind] = Counter()
    for operation, milliseconds in events:
        if kind := kind_of(operation, scopes):
            spent[kind] += milliseconds / NUM_STEPS  # type: ignore[assignment]
    return [
        ProfiledKind(
            benchmark=name,
            policy=variant.policy,
            batch_size=batch_size,
            kind=kind,
            milliseconds=round(spent[kind], 3),
            share=round(spent[kind] / sum(spent.values()), 4),
            kernel=kernels.get(kind),
        )
        for kind in KINDS
        if spent[kind]
    ]


def kind_of(event: str, optimizer_scopes: Set[str]) -> Kind | None:
    """Return the kind of the operation of an event, such as "net/conv2d/convolution:Conv2D"; None of other events.

    Calls of functions are left out, because the operations inside have events of their own.

    Args:
        optimizer_scopes: the names under which the optimizer and the loss scale around it compute.
    """
    found = re.fullmatch(r"([^:\s]+):(\w+)", event)
    if not found or found[2] in CALLS:
        return None
    if optimizer_scopes & set(found[1].split("/")):
        return "optimizer and loss scale"
    return next((kind for part, kind in KIND_OF if part in found[2]), "rest")


def slowest_kernels(log: str) -> dict[Kind, str]:
    """Return the kernel that takes most time of each kind, and its direction, from a log of oneDNN."""
    spent: dict[Kind, Counter[str]] = {}
    for line in log.splitlines():
        fields = line.split(",")
        if fields[2:4] == ["primitive", "exec"] and fields[5] in PRIMITIVES:
            is_depthwise = fields[5] == "convolution" and fields[-2].startswith("g")
            kind = "depthwise convolution" if is_depthwise else PRIMITIVES[fields[5]]
            direction = "" if fields[7] == "undef" else f" ({fields[7].replace('_', ' ')})"
            spent.setdefault(kind, Counter())[fields[6] + direction] += float(fields[-1])  # type: ignore[assignment]
    return {kind: times.most_common(1)[0][0] for kind, times in spent.items()}


def _events(trace: bytes) -> Iterator[tuple[str, float]]:
    """Yield the name and the milliseconds of every event on the CPU's threads, from the profiler's protocol buffer."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space: Any = xplane_pb2.XSpace.FromString(trace)
    for plane in space.planes:
        if plane.name == "/host:CPU":
            for line in plane.lines:
                yield from ((plane.event_metadata[e.metadata_id].name, e.duration_ps / 1e9) for e in line.events)


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Send what the process prints inside the block to a file, that of its libraries too."""
    sys.stdout.flush()
    kept = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
