"""Measure the variants of a benchmark in turns, and write what was found."""

import csv
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pipeline.speed.blocks import REPEAT, PlacedBlock
from pipeline.speed.estimates import Speeds
from pipeline.speed.turns import BLOCK_SECONDS, Measurement, take_turns
from pipeline.speed.worker import worker
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import PARAMS, Study


def measure_benchmark(
    study: Study, benchmark: str, side_by_side: bool, say: Callable[[str], None], path: Path = PARAMS
) -> tuple[Measurement, Speeds]:
    """Train every variant of `benchmark` in turns, the baseline twice, for as long as the study says.

    Of variants that differ in their learning rate alone the first takes part.

    Args:
        side_by_side: whether processes of all variants may live at once.
        path: the file that holds `study`.

    Raises:
        InputError: a process ended for another reason than its memory or its time.
    """
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    variants = study.variants_of(benchmark)
    timed = {timed_as: variants[timed_as] for timed_as in study.timed_as(benchmark).values()}
    max_steps = {name: max_block_steps(recipe, variant.batch_multiplier) for name, variant in timed.items()}
    max_steps = {baseline: max_steps[baseline], REPEAT: max_steps[baseline]} | max_steps
    command = ["stages.train_blocks", "--study", str(path), "--benchmark", benchmark, "--variant"]
    measurement = take_turns(
        lambda name: worker([*command, baseline if name == REPEAT else name], study.max_run_seconds),
        max_steps,
        recipe.steps_per_execution,
        study.speed.budget_seconds,
        side_by_side,
        partial(_is_settled, study, benchmark),
        say,
    )
    return measurement, speeds_of(study, benchmark, measurement.blocks)


def max_block_steps(recipe: Benchmark, batch_multiplier: int) -> int:
    """Return the most steps of a block: those of an epoch in whole batches and whole executions."""
    whole = recipe.split.num_train_examples // (recipe.batch_size * batch_multiplier)
    num_steps = min(whole, recipe.num_steps(batch_multiplier))
    return max(num_steps // recipe.steps_per_execution * recipe.steps_per_execution, 1)


def speeds_of(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> Speeds:
    recipe = study.benchmarks[benchmark]
    return Speeds(blocks, study.comparison.baseline, recipe.num_examples(1), recipe.split.num_validation_examples)


def _is_settled(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> bool:
    half_width = speeds_of(study, benchmark, blocks).half_width()
    return half_width is not None and half_width <= study.speed.target_half_width


def write_blocks(blocks: Sequence[PlacedBlock], path: Path) -> None:
    """Write a row a block."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(PlacedBlock.model_fields))
        writer.writeheader()
        writer.writerows(block.model_dump() for block in blocks)


def write_estimates(study: Study, measurement: Measurement, speeds: Speeds, path: Path) -> None:
    """Write the speedups that the blocks give, and how the measurement went."""
    spread = speeds.launch_spread()
    estimates = {
        "ended_because": measurement.ended_because,
        "spent_seconds": round(measurement.spent_seconds, 1),
        "budget_seconds": study.speed.budget_seconds,
        "half_width": speeds.half_width(),
        "target_half_width": study.speed.target_half_width,
        "side_by_side": measurement.side_by_side,
        "block_seconds": BLOCK_SECONDS,
        "num_turns_by_launch": speeds.num_turns,
        "log_seconds_spread": spread and {"of_launches": spread[0], "degrees_of_freedom": spread[1]},
        "outcomes": speeds.outcomes,
        "speedups": {
            name: {
                "training": speeds.speedup(speeds.baseline, name).model_dump(),
                "with_validation": speeds.speedup(speeds.baseline, name, whole_epochs=True).model_dump(),
            }
            for name in speeds.variants
            if name != speeds.baseline
        },
    }
    path.write_text(json.dumps(estimates, indent=2) + "\n", encoding="utf-8")
