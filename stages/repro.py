"""Check the study, make what is unfinished of it with `dvc repro`, and say what it found, or what to do if it fails."""

import argparse
import contextlib
import itertools
import shutil
import signal
import sys
import time

from pipeline.campaign.run_cache import nothing_is_left
from pipeline.comparison import finished_runs
from pipeline.errors import InputError
from pipeline.machine.engine_choice import kernels_for
from pipeline.machine.hardware import this_machine
from pipeline.machine.locking import STUDY, alone
from pipeline.machine.warm import WarmProcesses
from pipeline.numbers import duration
from pipeline.reproduction.repro import Ended, exit_status, remedy, run_dvc
from pipeline.reproduction.study_progress import Forecast, StudyProgress
from pipeline.study.schema import RunKey, Study
from stages import run
from stages.check import check
from stages.inputs import INPUTS, describe, is_written
from stages.summary import summarise

LEFT_OUT = "left_out.txt"  # as stages.train writes it
BEFORE_TRAINING = ("download", "inputs", "numerics")


def main(_: argparse.Namespace) -> None:
    with alone(STUDY, "The study of this folder"):
        sys.exit(make())


def make() -> int:
    """Check, make and sum up the study of this folder; return an exit status for `make`."""
    study = check()
    print(f"{study.name}: {study.description}", flush=True)
    if nothing_is_left():
        print("everything is made already")
    elif status := reproduce(study):
        return status
    summarise()
    return 0


def reproduce(study: Study) -> int:
    """Run `dvc repro` and return an exit status; say how far it is, and what to do if it fails."""
    earlier = {key: seconds for key in study.runs() if (seconds := seconds_of(key))}
    started = time.monotonic()
    speeds = {f"speed@{name}": study.speed.budget_seconds for name in study.benchmarks if not is_timed(study, name)}
    forecast = Forecast(study.runs(), earlier, speeds)
    print(forecast.in_words(), flush=True)
    with WarmProcesses(warm_commands(study)), StudyProgress(forecast) as progress:
        try:
            status = train(study, progress) or run_dvc(progress.take, "repro")
        except Ended as ended:
            progress.say(
                f"interrupted ({ended}). What is finished stays; the same command goes on after the last whole epoch."
            )
            return 128 + ended.number
    if status == 0:
        print(f"everything is made, in {duration(time.monotonic() - started)}")
        return 0
    by = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}, without a word"
    words = "\n".join(progress.words) or f"dvc repro {by}"
    stage = progress.stage if progress.stage and progress.stage in words else None
    code = exit_status(words) or 1
    own = "\n".join(progress.message)
    if own and code in (1, 2):  # which ends in what to do
        told = f"what is finished stays, and `make repro` goes on from there, once this is done:\n{own}"
    else:
        told = f"{own}\nwhat to do: {remedy(words, stage)}".lstrip()
    print(f"error: {words}\n{told}", file=sys.stderr)
    return code if code > 0 else 128 - code


def train(study: Study, progress: StudyProgress) -> int:
    """Make the runs of the study, then finish at once what DVC's matrix has beyond them; return DVC's exit status.

    Each stage of the matrix would be a process, and DVC reads and writes all of dvc.lock after each.
    """
    keys = (RunKey(*item) for item in itertools.product(study.benchmarks, study.variants, study.seeds))
    beyond = {key: why for key in keys if (why := study.why_left_out(key)) and not (key.directory / LEFT_OUT).exists()}
    if not beyond:
        return 0
    stages = [*BEFORE_TRAINING, *(key.stage for key in study.runs())]
    if status := run_dvc(progress.take, "repro", "--single-item", *stages):  # in this order, which no other way keeps
        return status
    for key, why in beyond.items():
        shutil.rmtree(key.directory, ignore_errors=True)  # of a study that had this run
        key.directory.mkdir(parents=True)
        (key.directory / LEFT_OUT).write_text(f"{why}\n", encoding="utf-8")
    # By one name, because it writes dvc.lock once a name.
    return run_dvc(progress.take, "commit", "--quiet", "--force", "train")


def warm_commands(study: Study) -> dict[str, list[str]]:
    """Return what starts a warm process for each choice of kernels; none beside an accelerator: not tried."""
    if this_machine().kind != "cpu":
        return {}
    command = [sys.executable, "-m", "stages.warm", study.engine]
    return {kernels_for([variant.policy]): [*command, variant.policy] for variant in study.variants.values()}


def is_timed(study: Study, benchmark: str) -> bool:
    """Return whether the turns of `benchmark` are there, of this study as it is, and take no more time."""
    path = INPUTS / "speed" / f"{benchmark}.json"  # which DVC compares only once it is written again
    with contextlib.suppress(InputError):
        return nothing_is_left(stages=[f"speed@{benchmark}"]) and is_written(path, describe(study, benchmark)[path])
    return False


def seconds_of(key: RunKey) -> float | None:
    """Return the seconds a finished run took; None if it isn't there, or is damaged."""
    try:
        return finished_runs.read_record(key).times.run_seconds
    except InputError:
        return None


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.repro", description=__doc__))
