"""Read the blocks in which the speed of a benchmark's variants was measured, check them, and sum them up."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.comparison.comparable import surroundings
from pipeline.comparison.schema import Turns
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, damaged, read_json, read_rows
from pipeline.records.blocks import REPEAT, Circumstances, PlacedBlock
from pipeline.records.schema import RunRecord
from pipeline.statistics.speeds import Speeds, speeds_of
from pipeline.study.schema import Study

SPEED = Path("results/speed")
_MAX_BYTES = 2**20


def read_speeds(study: Study, benchmark: str, folder: Path = SPEED) -> Speeds:
    """Return the speeds of the variants of `benchmark`. Raises `InputError` that says how to measure them again."""
    path, remedy = folder / f"{benchmark}.csv", _remedy(benchmark)
    blocks = read_rows(PlacedBlock, path, remedy)
    for contradiction in _contradictions(study, benchmark, blocks):
        raise damaged(path, contradiction, remedy)
    return speeds_of(study, benchmark, blocks)


def check_circumstances(study: Study, record: RunRecord, root: Path = Path()) -> None:
    """Check that speed was measured where the runs were made, of which `record` is any.

    Raises:
        InputError: it was not, or the file that says where is missing or damaged; and how to measure again.
    """
    wanted = surroundings(record.environment)
    for benchmark in study.benchmarks:
        found = surroundings(read_circumstances(benchmark, root / SPEED).environment)
        for what, value in wanted.items():
            if found[what] != value:
                raise InputError(
                    f"{root / SPEED / benchmark}.json and {record.key.directory} can't be compared: they "
                    f"differ in {what} ({found[what]}; {value}). {_remedy(benchmark).damaged}"
                )


def read_circumstances(benchmark: str, folder: Path = SPEED) -> Circumstances:
    """Return where and how the speed of `benchmark` was measured. Raises `InputError` as `read_speeds` does."""
    return read_json(Circumstances, folder / f"{benchmark}.json", _remedy(benchmark), _MAX_BYTES)


def _remedy(benchmark: str) -> Remedy:
    stage = f"speed@{benchmark}"
    return Remedy(f"Measure it: dvc repro {stage}", f"Measure it again: dvc repro --force --single-item {stage}")


def summarise_turns(study: Study, benchmark: str, speeds: Speeds) -> Turns:
    """Say how the speed of `benchmark` was measured, and how far it varies."""
    spread, degrees_of_freedom = speeds.launch_spread() or (None, 0)
    return Turns(
        benchmark=benchmark,
        num_turns_by_launch=speeds.num_turns,
        side_by_side=speeds.side_by_side,
        num_blocks=len(speeds.blocks),
        num_beside_others=sum(block.shares_gpu for block in speeds.blocks),
        half_width=speeds.half_width(),
        target_half_width=study.speed.target_half_width,
        launch_spread=spread,
        degrees_of_freedom=degrees_of_freedom,
        baseline_again=speeds.speedup(speeds.baseline, REPEAT),
        other_cpu_share=speeds.other_cpu_share,
    )


def _contradictions(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> Iterator[str]:
    """Yield what the blocks say against the study, or against each other."""
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    timed = study.measured_as(benchmark).values()
    multipliers = {name: study.variants[name].batch_multiplier for name in timed}
    multipliers[REPEAT] = multipliers[baseline]
    if {block.variant for block in blocks} != multipliers.keys():
        yield f"its variants are not {', '.join(multipliers)}"
    if sorted({block.launch for block in blocks}) != list(range(1, 1 + len({block.launch for block in blocks}))):
        yield "its launches are not numbered from 1"
    if len({(block.launch, block.turn, block.variant) for block in blocks}) < len(blocks):
        yield "a block stands twice"
    for block in blocks:
        name = f"launch {block.launch}, turn {block.turn}, {block.variant}"
        if block.num_images != block.num_steps * recipe.batch_size * multipliers[block.variant]:
            yield f"{name}: {block.num_images} images are not those of {block.num_steps} steps"
        if block.num_steps > recipe.max_block_steps(multipliers[block.variant]):
            yield f"{name}: {block.num_steps} steps are more than an epoch has"
