"""Train one run of the study: one benchmark, one variant, one seed, in a child of this process or of a warm one."""

import time

PROCESS_STARTED = time.perf_counter()  # before the imports, which are part of what a run costs

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from multiprocessing.connection import Connection  # noqa: E402
from pathlib import Path  # noqa: E402

parser = argparse.ArgumentParser(prog="python -m stages.train", description=__doc__)
parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
parser.add_argument("--variant", required=True, help="a variant of params.yaml")
parser.add_argument("--seed", required=True, type=int, help="a seed of params.yaml")


def is_left_out(arguments: argparse.Namespace) -> bool:
    """Return whether the study leaves this run out, by what DVC had written of it; then say why.

    DVC's matrix is a full product. What the other imports take is most of what such a combination costs.
    """
    directory = Path("runs", arguments.benchmark, arguments.variant, f"seed-{arguments.seed}")
    inputs = Path("inputs", f"{directory}.json")
    why = json.loads(inputs.read_text(encoding="utf-8")).get("left_out") if inputs.exists() else None
    if why:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "left_out.txt").write_text(f"{why}\n", encoding="utf-8")
        print(why)
    return bool(why)


if __name__ == "__main__" and is_left_out(parser.parse_args()):
    sys.exit()

from pipeline.errors import InputError  # noqa: E402
from pipeline.machine import warm  # noqa: E402
from pipeline.machine.engine_choice import choose_engine, kernels_for  # noqa: E402
from pipeline.machine.environment import installed_runtime  # noqa: E402
from pipeline.records.schema import RunRecord  # noqa: E402
from pipeline.study.schema import RunKey, Study, load_study  # noqa: E402
from pipeline.training import parent  # noqa: E402
from stages import ending_in_words, run  # noqa: E402


def main(arguments: argparse.Namespace) -> None:
    study = load_study()
    key = RunKey(arguments.benchmark, arguments.variant, arguments.seed)
    for field, name, known in (
        ("benchmark", key.benchmark, study.benchmarks),
        ("variant", key.variant, study.variants),
        ("seed", key.seed, study.seeds),
    ):
        if name not in known:
            raise InputError(f"--{field}: must be one of {', '.join(map(str, known))}. Received: {name}")
    if why := study.why_left_out(key):
        raise InputError(f"{key.directory}: {why}")
    installed = installed_runtime()
    if installed not in (None, study.runtime):
        raise InputError(f"runtime: the study wants {study.runtime}, and the packages here are those of {installed}.")
    policies = [study.variants[key.variant].policy]
    if child := warm.ask(kernels_for(policies)):
        child.pipe.send((Path.cwd(), study, key, PROCESS_STARTED))
    else:
        child = parent.fork()
    if child.pid:
        sys.exit(parent.wait(child, study, key, tell))
    choose_engine(study.engine, policies)
    make(child.pipe, study, key, PROCESS_STARTED)


def make_as_asked(pipe: Connection) -> None:
    """Make the run that comes through `pipe`, in a child of a warm process."""
    try:
        folder, study, key, process_started = pipe.recv()
    except EOFError:  # whoever asked has ended
        return
    with ending_in_words():
        os.chdir(folder)
        make(pipe, study, key, process_started, is_warm=True)


def make(pipe: Connection, study: Study, key: RunKey, process_started: float, *, is_warm: bool = False) -> None:
    """Make the run `key` in this process, a child, and tell its parent through `pipe` what is known of it."""
    ending = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: ending.set())  # by which a scheduler warns that time is running out
    parent.end_with_parent(pipe)
    from pipeline import engine  # which takes seconds to import
    from pipeline.training.run import train

    tell(train(study, key, process_started, ending=ending, tell=pipe.send, is_warm=is_warm))
    engine.end_process()


def tell(record: RunRecord) -> None:
    accuracy = "unknown" if record.scores.test_accuracy is None else f"{record.scores.test_accuracy:.4f}"
    outcome = record.outcome.replace("_", " ")
    print(f"{record.key.directory}: {outcome}, test accuracy {accuracy}")


if __name__ == "__main__":
    run(main, parser)
