"""Show that speed in turns is honest, by measuring the same thing again and again.

--measure FILE writes the blocks of so many repetitions of a benchmark's measurement. Beside the study's variants there
is a planted one, whose steps have 5 % more images than they are counted for; with --load one core is busy at times.

--show FILE prints a JSON line: how often the interval of the baseline over itself holds 1 where launches are drawn from
all repetitions, how often the planted difference is found, the components of variance, and how wide the intervals are;
with --launches also for measurements of so many.

It needs data/ (dvc repro download).
"""

import argparse
import csv
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from bench.coverage import PLANTED, TaggedBlock, show
from pipeline.files.untrusted import Remedy, read_rows
from pipeline.machine.engine_choice import choose_engine
from pipeline.speed.blocks import REPEAT, Block, Task
from pipeline.speed.measuring import is_settled, max_block_steps, measured_as
from pipeline.speed.turns import take_turns
from pipeline.speed.worker import worker
from pipeline.study.schema import Study, load_study

MORE = 1.05
LOAD_SECONDS = 4.0  # mean length of a time of load, and of a time without


def repeat(study: Study, benchmark: str, budget_seconds: float, repetition: int) -> list[TaggedBlock]:
    """Measure every variant of `benchmark`, the baseline again, and the baseline with 5 % more work in each step."""
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    multipliers = {name: study.variants[name].batch_multiplier for name in measured_as(study, benchmark).values()}
    multipliers = {baseline: 1, REPEAT: 1, PLANTED: 1} | multipliers

    def start(name: str):  # type: ignore[no-untyped-def]
        own = ["bench.turns", "--train-planted"] if name == PLANTED else ["stages.train_blocks"]
        variant = baseline if name in (REPEAT, PLANTED) else name
        return worker([*own, "--study", "params.yaml", "--benchmark", benchmark, "--variant", variant])

    sizes = {name: max_block_steps(recipe, multiplier) for name, multiplier in multipliers.items()}
    sizes[PLANTED] = int(sizes[PLANTED] / MORE)
    say = partial(print, f"repetition {repetition}:", flush=True)
    ends = partial(is_settled, study, benchmark)
    found = take_turns(start, sizes, recipe.steps_per_execution, budget_seconds, True, ends, say)
    return [TaggedBlock(**block.model_dump(), repetition=repetition) for block in found.blocks]


def train_planted(study: Study, benchmark: str, variant: str) -> None:
    """Train the baseline with 5 % more images a step, and call them as many as it should have."""
    choose_engine(study.engine, [study.variants[variant].policy])
    from pipeline.speed.training import train_blocks  # the engine takes seconds to import

    recipe = study.benchmarks[benchmark]
    more = recipe.model_copy(update={"batch_size": round(MORE * recipe.batch_size)})
    changed = study.model_copy(update={"benchmarks": study.benchmarks | {benchmark: more}})

    def answer(block: Block) -> None:
        counted = block.model_copy(update={"num_images": block.num_steps * recipe.batch_size})
        print(counted.model_dump_json(), flush=True)

    train_blocks(changed, benchmark, variant, map(Task.read, sys.stdin), answer)


@contextmanager
def load_at_random() -> Iterator[None]:
    """Keep one core busy, at times."""
    ending = threading.Event()

    def go_on() -> None:
        rng = np.random.default_rng(0)
        while not ending.is_set():
            with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
                ending.wait(rng.exponential(LOAD_SECONDS))
                busy.kill()
            ending.wait(rng.exponential(LOAD_SECONDS))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__)
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--train-planted", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--study", type=Path, default=Path("params.yaml"))
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--variant")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--load", action="store_true", help="one busy core, at times")
    parser.add_argument("--launches", type=int, nargs="+", default=[], help="show measurements of so many, too")
    arguments = parser.parse_args()
    study = load_study(arguments.study)
    if arguments.train_planted:
        train_planted(study, arguments.benchmark, arguments.variant)
    elif arguments.measure:
        with arguments.measure.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(TaggedBlock.model_fields))
            writer.writeheader()
            for repetition in range(1, arguments.repetitions + 1):
                started = time.monotonic()
                with load_at_random() if arguments.load else threading.Lock():
                    blocks = repeat(study, arguments.benchmark, study.speed.budget_seconds, repetition)
                print(f"repetition {repetition}: {time.monotonic() - started:.0f} s", flush=True)
                writer.writerows(block.model_dump() for block in blocks)
                file.flush()
    elif arguments.show:
        blocks = read_rows(TaggedBlock, arguments.show, Remedy("Measure it.", "Measure it again."))
        print(json.dumps(show(study, arguments.benchmark, blocks, arguments.launches)))


if __name__ == "__main__":
    main()
