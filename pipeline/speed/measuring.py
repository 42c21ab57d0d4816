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

# Narrow intervals may end a measurement from this many launches on. With fewer launches, intervals were too often
# narrow by chance (docs/decisions/speed-in-turns.md).
MIN_SETTLED_LAUNCHES = 4
ENDED: dict[int, Outcome] = {-signal.SIGALRM: "too_slow", -signal.SIGKILL: "out_of_memory"}  # by exit status
UNFINISHED = "so_far.json"  # the state of an interrupted measurement, until the measurement ends


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
    """Measure the speed of the variants of `benchmark`, which train in turns, as `take_turns` describes.

    The baseline has two processes. Of variants that differ only in learning rate or epochs, only one trains. After each
    launch, the results so far are written to a file in `folder`, from which an interrupted measurement resumes.

    Args:
        side_by_side: whether processes of all variants may live at once.
        say: called with a line about each launch.
        check_read: raises `InputError` if data, code or model were edited. Each process calls the function after
            reading these files, so the function must be picklable.

    Raises:
        InputError: a process failed for a reason other than lack of memory or the time limit, the baseline's process
            ended before it trained, or `check_read` found an edit.
    """
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    variants = study.variants_of(benchmark)
    timed = dict.fromkeys(study.measured_as(benchmark).values())
    names = list(dict.fromkeys([baseline, REPEAT, *timed]))
    take_memory_as_needed()

    trained = {name: baseline if name == REPEAT else name for name in names}
    alike: dict[str, list[str]] = {}  # variants, by the kernels with which they compute
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
    """Choose the engine. If a process with an imported engine can be forked, import the engine for all children."""
    choose_engine(policies)
    if can_fork():
        try:
            import pipeline.speed.training  # noqa: F401
        finally:
            check_read()  # also if the import failed: an edit may be the cause


class Trained:
    """Have a process train a variant, one task at a time. The process starts, and takes memory, at the first task.

    `where` holds the fields `environment` and `images_on_device` of `Launch`, or None before the first answer.
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

    First send the fields `environment` and `images_on_device` of `Launch`, then each block. All descendants of the
    process `root_pid` belong to this measurement, so their work is no disturbance.
    """
    tasks = _tasks(pipe, study.max_run_seconds or 0.0)
    first = next(tasks)
    limit_seconds(0)  # no limit until this process has sent its environment
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
    """Yield each task that comes through `pipe`. End this process if a task takes over `max_seconds` (0: no limit)."""
    while True:
        task = pipe.recv()
        limit_seconds(max_seconds)
        yield task
        limit_seconds(0)


def is_settled(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> bool:
    """Tell whether the launches are enough, and the intervals narrow enough, to end the measurement early."""
    speeds = speeds_of(study, benchmark, blocks)
    width = half_width(speeds)
    is_narrow = width is not None and width <= study.speed.target_half_width
    return is_narrow and len(speeds.num_turns) >= MIN_SETTLED_LAUNCHES


def half_width(speeds: Speeds) -> float | None:
    """Return the largest half-width of the variants' speedup intervals, or None if no speedup has an interval.

    The half-width is the interval's upper end, divided by the speedup, minus 1. If the baseline is the only variant,
    use the ratio of the baseline's two processes.
    """
    baseline = speeds.baseline
    names = [name for name in speeds.variants if name not in (baseline, REPEAT)] or [REPEAT]
    ratios = [speeds.speedup(baseline, name) for name in names]
    return max((ratio.high / ratio.value - 1 for ratio in ratios if ratio.value and ratio.high), default=None)


def write_measurement(measurement: Measurement, folder: Path, num_stops: int = 0) -> None:
    """Write `blocks.csv` and `measurement.json` into `folder`, and delete the file for an interrupted measurement.

    Args:
        num_stops: the number of measurements in a row, just before this one, in which a process was stopped at the
            study's time limit.
    """
    rows = csv_text(list(PlacedBlock.model_fields), (block.model_dump() for block in measurement.blocks))
    (folder / "blocks.csv").write_text(rows, encoding="utf-8")
    is_stopped = any(block.outcome == "too_slow" for block in measurement.blocks)
    found = Circumstances(launches=measurement.launches, num_stops=num_stops + 1 if is_stopped else 0)
    (folder / "measurement.json").write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / UNFINISHED).unlink(missing_ok=True)
