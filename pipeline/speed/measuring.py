"""Measure the variants of a benchmark in turns, and write the results."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pipeline.data.datasets import num_train_bytes
from pipeline.errors import InputError
from pipeline.files.writing import csv_text
from pipeline.machine.engine_choice import can_fork, choose_engine, kernels_for, take_memory_as_needed
from pipeline.machine.environment import environment_here, installed_engine
from pipeline.machine.processes import Ended, Line, Parent, limit_seconds
from pipeline.records.blocks import REPEAT, Block, Circumstances, PlacedBlock
from pipeline.records.run_record import Outcome
from pipeline.speed.turns import Measurement, Task, Train, take_turns
from pipeline.statistics.speeds import Speeds, speeds_of
from pipeline.study.engines import ENGINES
from pipeline.study.schema import Study

# Narrow intervals may end a measurement from this many launches on. With fewer, they were too often narrow by chance
# (docs/decisions/speed-in-turns.md).
MIN_SETTLED_LAUNCHES = 4
ENDED: dict[int, Outcome] = {-signal.SIGALRM: "too_slow", -signal.SIGKILL: "out_of_memory"}  # by exit status
UNFINISHED = "so_far.json"  # the launches of an interrupted measurement


def do_nothing() -> None:
    pass


def measure_benchmark(
    study: Study,
    benchmark: str,
    folder: Path,
    side_by_side: bool,
    say: Callable[[str], None],
    check_read: Callable[[], None] = do_nothing,
) -> Measurement:
    """Train every variant of `benchmark` in turns, the baseline in two processes, for as long as the study says.

    Of variants that differ only in learning rate or epochs, one takes part. Each launch is written to `folder` when it
    ends. An interrupted measurement resumes from the launches there.

    Args:
        side_by_side: whether processes of all variants may live at once.
        check_read: called in each process once it has read data, code and model. It can be pickled, and raises an
            error if one of them was edited meanwhile.

    Raises:
        InputError: a process failed for a reason other than its memory or time limit, or the baseline's process ended
            before it trained.
    """
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    variants = study.variants_of(benchmark)
    timed = dict.fromkeys(study.measured_as(benchmark).values())
    names = list(dict.fromkeys([baseline, REPEAT, *timed]))
    take_memory_as_needed()

    trained = {name: baseline if name == REPEAT else name for name in names}
    alike: dict[str, list[str]] = {}  # variants, by the kernels they compute with
    for name, variant in trained.items():
        alike.setdefault(kernels_for([variants[variant].policy]), []).append(name)

    with ExitStack() as parents:
        lines: dict[str, Line] = {}
        for group in alike.values():
            policies = [variants[trained[name]].policy for name in group]
            parent = parents.enter_context(Parent(len(group), import_engine, policies, check_read))
            lines |= zip(group, parent.lines, strict=True)

        @contextmanager
        def start(names: Sequence[str]) -> Iterator[dict[str, Train]]:
            try:
                yield {name: Trained(lines[name], study, benchmark, trained[name], check_read) for name in names}
            finally:
                for name in names:
                    lines[name].end()

        return take_turns(
            start,
            names,
            recipe.steps_per_execution,
            study.budget_seconds(benchmark),
            side_by_side,
            partial(is_settled, study, benchmark),
            say,
            folder / UNFINISHED,
            study.compilation_cache and ENGINES[installed_engine()].backend == "jax",
        )


def import_engine(policies: Sequence[str], check_read: Callable[[], None]) -> None:
    """Choose the engine. If this process can be forked, import the engine for all children to share."""
    choose_engine(policies)
    if can_fork():
        try:
            import pipeline.speed.training  # noqa: F401
        finally:
            check_read()  # code that is being edited may fail to import


class Trained:
    """Have a process train a variant, one task at a time. The process starts, and takes memory, at the first task.

    `where` describes where the process trains, in fields of `Launch`. It is None until the process has answered.
    """

    where: Mapping[str, Any] | None = None

    def __init__(
        self, line: Line, study: Study, benchmark: str, variant: str, check_read: Callable[[], None] = do_nothing
    ) -> None:
        self._line, self._work = line, (study, benchmark, variant, os.getpid(), check_read)
        self._variant, self._has_started = variant, False

    def __call__(self, task: Task) -> Block:
        if not self._has_started:
            self._line.start(train_variant, *self._work)
            self._has_started = True
        self._line.send(task)
        answer = self._line.receive()
        if isinstance(answer, dict):
            self.where = answer
            answer = self._line.receive()
        if isinstance(answer, Block):
            return answer
        if isinstance(answer, Ended) and answer.status in ENDED:
            return Block(outcome=ENDED[answer.status])
        raise InputError(f"the process that trained {self._variant} ended ({answer}); see its output above")


def train_variant(
    pipe: Any, study: Study, benchmark: str, variant: str, root_pid: int, check_read: Callable[[], None]
) -> None:
    """Train blocks of a variant in this process, one for each task that comes through `pipe`.

    All descendants of process `root_pid` belong to this measurement.
    """
    tasks = _tasks(pipe, study.max_run_seconds or 0.0)
    first = next(tasks)
    limit_seconds(0)  # until it is known where this process trains
    choose_engine([study.variants[variant].policy])
    from pipeline import engine  # which takes seconds to import
    from pipeline.speed.training import train_blocks

    recipe = study.benchmarks[benchmark]
    where = {
        "environment": environment_here(engine.accelerators(), engine.version(), engine.kernels()),
        "images_on_device": engine.keeps_images(num_train_bytes(recipe.dataset, recipe.split)),
    }
    pipe.send(where)
    limit_seconds(study.max_run_seconds or 0.0)
    train_blocks(study, benchmark, variant, chain([first], tasks), pipe.send, root_pid, check_read)


def _tasks(pipe: Any, max_seconds: float) -> Iterator[Task]:
    """Yield each task received. End this process if a task takes longer than `max_seconds` (0: no limit)."""
    while True:
        task = pipe.recv()
        limit_seconds(max_seconds)
        yield task
        limit_seconds(0)


def is_settled(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> bool:
    """Tell whether intervals are narrow enough, after enough launches, to end a measurement early."""
    speeds = speeds_of(study, benchmark, blocks)
    width = half_width(speeds)
    is_narrow = width is not None and width <= study.speed.target_half_width
    return is_narrow and len(speeds.num_turns) >= MIN_SETTLED_LAUNCHES


def half_width(speeds: Speeds) -> float | None:
    """Return the half-width of the widest interval of a speedup, as a share of the ratio, or None if unknown.

    If there is no other variant, use the interval of the ratio between the baseline's two processes.
    """
    baseline = speeds.baseline
    names = [name for name in speeds.variants if name not in (baseline, REPEAT)] or [REPEAT]
    ratios = [speeds.speedup(baseline, name) for name in names]
    return max((ratio.high / ratio.value - 1 for ratio in ratios if ratio.value and ratio.high), default=None)


def write_measurement(measurement: Measurement, folder: Path, num_stops: int = 0) -> None:
    """Write `blocks.csv`, one row per block, and `measurement.json` with the launches.

    Args:
        num_stops: how many measurements in a row, up to the one before, ended with a process stopped at the study's
            time limit.
    """
    rows = csv_text(list(PlacedBlock.model_fields), (block.model_dump() for block in measurement.blocks))
    (folder / "blocks.csv").write_text(rows, encoding="utf-8")
    is_stopped = any(block.outcome == "too_slow" for block in measurement.blocks)
    found = Circumstances(launches=measurement.launches, num_stops=num_stops + 1 if is_stopped else 0)
    (folder / "measurement.json").write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / UNFINISHED).unlink(missing_ok=True)
