"""Measure the variants of a benchmark in turns, and write what was found."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.writing import csv_text, write_whole
from pipeline.machine.engine_choice import choose_engine, kernels_for
from pipeline.machine.environment import describe
from pipeline.records.blocks import REPEAT, Block, Circumstances, PlacedBlock
from pipeline.records.schema import Environment
from pipeline.speed.turns import Measurement, take_turns
from pipeline.speed.worker import Task, Train, workers
from pipeline.statistics.speeds import Speeds, speeds_of
from pipeline.study.schema import Study

# Before so many launches a measurement does not end for its narrow intervals: where it would at two, these were narrow
# by chance too often. docs/decisions/speed-in-turns.md has the numbers.
MIN_SETTLED_LAUNCHES = 4


def measure_benchmark(
    study: Study, benchmark: str, side_by_side: bool, say: Callable[[str], None]
) -> tuple[Measurement, Speeds, Environment]:
    """Train every variant of `benchmark` in turns, the baseline twice, for as long as the study says.

    Of variants that differ in their learning rate alone one takes part. The last value is the environment in
    which the baseline trained.

    Args:
        side_by_side: whether processes of all variants may live at once.

    Raises:
        InputError: a process ended for another reason than its memory or its time, or before it could say where it is.
    """
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    variants = study.variants_of(benchmark)
    timed = dict.fromkeys(study.measured_as(benchmark).values())
    max_steps = {name: recipe.max_block_steps(variants[name].batch_multiplier) for name in timed}
    max_steps = {baseline: max_steps[baseline], REPEAT: max_steps[baseline]} | max_steps
    limit = study.max_run_seconds or 0.0
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder, "environment.json")
        train = partial(train_variant, study, benchmark, described)

        @contextmanager
        def start(names: Sequence[str]) -> Iterator[dict[str, Train]]:
            trained = {name: baseline if name == REPEAT else name for name in names}
            alike: dict[str, list[str]] = {}  # what computes with the same kernels
            for name, variant in trained.items():
                alike.setdefault(kernels_for([variants[variant].policy]), []).append(name)
            with ExitStack() as launched:
                trains: dict[str, Train] = {}
                for group in alike.values():
                    started = workers([trained[name] for name in group], partial(load_engine, study), train, limit)
                    trains |= zip(group, launched.enter_context(started), strict=True)
                yield trains

        measurement = take_turns(
            start,
            max_steps,
            recipe.steps_per_execution,
            study.speed.budget_seconds,
            side_by_side,
            partial(is_settled, study, benchmark),
            say,
        )
        if not described.exists():
            raise InputError(f"{benchmark}: the system ended the process of {baseline} before it trained.")
        environment: Environment = json.loads(described.read_text(encoding="utf-8"))
    return measurement, speeds_of(study, benchmark, measurement.blocks), environment


def load_engine(study: Study, variants: Sequence[str]) -> None:
    """Choose the engine; import it where several processes will be forked, as they are on a CPU alone."""
    choose_engine(study.engine, [study.variants[variant].policy for variant in variants])
    if len(variants) > 1:
        import pipeline.speed.training  # noqa: F401


def train_variant(
    study: Study,
    benchmark: str,
    described: Path,
    variant: str,
    tasks: Iterator[Task],
    answer: Callable[[Block], None],
) -> None:
    """Train blocks of a variant; write to `described` where the baseline trains."""
    from pipeline import engine  # which takes seconds to import
    from pipeline.speed.training import train_blocks

    if variant == study.comparison.baseline:
        found = describe(study.runtime, engine.accelerators(), engine.version(), engine.kernels())
        write_whole(described, json.dumps(found))
    train_blocks(study, benchmark, variant, tasks, answer)


def is_settled(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> bool:
    """Return whether a measurement may end before its budget: the study's own rule."""
    speeds = speeds_of(study, benchmark, blocks)
    return len(speeds.num_turns) >= MIN_SETTLED_LAUNCHES and speeds.is_settled(study.speed.target_half_width)


def write_measurement(
    study: Study, benchmark: str, measurement: Measurement, environment: Environment, folder: Path
) -> None:
    """Write a row a block, and beside it what the rows do not say."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = csv_text(list(PlacedBlock.model_fields), (block.model_dump() for block in measurement.blocks))
    (folder / f"{benchmark}.csv").write_text(rows, encoding="utf-8")
    found = Circumstances(
        environment=environment,
        side_by_side=measurement.side_by_side,
        budget_seconds=study.speed.budget_seconds,
        target_half_width=study.speed.target_half_width,
        spent_seconds=round(measurement.spent_seconds, 1),
        ended_because=measurement.ended_because,
    )
    (folder / f"{benchmark}.json").write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
