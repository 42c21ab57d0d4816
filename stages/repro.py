"""Check the study, make its results with `dvc repro`, and print a summary, or advice if a stage fails."""

import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, cast

from pipeline.files.locks import at_work
from pipeline.files.places import PARAMS
from pipeline.machine.processes import end_with_starter
from stages import Interrupted, run
from stages.compose import compose_for_this_machine
from stages.summary import summarise

AGAIN = "then `make repro` goes on from there: what is finished stays."
GOES_ON = "`make repro` goes on after the last whole epoch."
# Advice that DVC prints at its end. Without this filter, the advice would stand between the last stage and the summary.
HINTS = re.compile(
    r"To track the changes with git|\tgit add |To enable auto staging|\tdvc config core.autostage|Use `dvc push`"
)
CHECKED = Path(".cache/checked")
# Messages of stages that refuse a result although DVC believes the result to be current.
STALE = "was made by another study|has no run of the study"
# What to do, by pattern in DVC's error output. The first pattern that matches counts.
REMEDIES = {
    "acquire lock|is busy, it is being blocked": "Another DVC command works in this folder. "
    f"Wait until it has ended, or end it; {AGAIN}",
    "is not a git repository": f"DVC works in a git repository. Clone this project with git, or run: git init; {AGAIN}",
    "was edited while": "Run `make repro` again: it makes what is missing, and what is finished stays.",
    r"dvc\.lock": f"Remove dvc.lock: finished runs are found in .cache/; {AGAIN}",
}


def main(arguments: argparse.Namespace) -> None:
    if arguments.for_this_machine:
        compose_for_this_machine()
    if status := make():
        sys.exit(status)


def make() -> int:
    """Check, finish and sum up the study in this folder; return an exit status for `make`."""
    with at_work():
        if not (was_checked := is_checked()):
            from stages.check import check  # takes half a second to import

            check()
        status, words = run_dvc() if was_checked else finish()
        if was_checked and not status and not is_checked():  # a result was made, or a file edited
            status, words = finish()
        if status:
            print(f"what to do: {remedy(words)}", file=sys.stderr)
            return exit_status(words) or 1
        summarise()
    return 0


def finish() -> tuple[int, str]:
    """Run `dvc repro`, and again if results are still missing. Return the exit status and the errors of the last run.

    If a file is edited while a stage runs, DVC assumes that the stage read the edited file. So this function then looks
    for missing results, and runs their stages again. The function also repeats, once, the stages with a run or a
    measurement that an earlier command stopped at the time limit.
    """
    from pipeline.machine.left_out import study_as_made  # these take half a second to import
    from pipeline.store.plan import stopped_once, unmade

    stopped, before = stopped_once(study_as_made()), PARAMS.read_bytes()
    status, words = run_dvc()
    if not status and (PARAMS.read_bytes() != before or unmade(study_as_made())):
        status, words = run_dvc()
    if status and not re.search(STALE, words):
        return status, words
    study = study_as_made()
    if again := [*unmade(study), *(stage for stage in stopped_once(study) if stage in stopped)]:
        status, words = run_dvc("--force", "--single-item", *dict.fromkeys(again))
        status, words = run_dvc() if not status else (status, words)
    if not status and not stopped_once(study_as_made()):
        CHECKED.parent.mkdir(exist_ok=True)
        CHECKED.write_text(asked_for(), encoding="utf-8")
    return status, words


def is_checked() -> bool:
    """Return whether the study, the claims, ENGINE and dvc.lock are as they were when a study last finished here."""
    return CHECKED.exists() and CHECKED.read_text(encoding="utf-8") == asked_for()


def asked_for() -> str:
    """Return a SHA-256 of params.yaml, claims.yaml, dvc.lock and the variable ENGINE."""
    texts = [Path(name).read_bytes() for name in ("params.yaml", "claims.yaml", "dvc.lock") if Path(name).exists()]
    return hashlib.sha256(b"\n".join([*texts, os.environ.get("ENGINE", "").encode()])).hexdigest()


def run_dvc(*words: str) -> tuple[int, str]:
    """Run `dvc repro`, show its output without `HINTS`, and return its exit status and its error output.

    Args:
        words: options and stages of `dvc repro`.

    Raises:
        Interrupted: a signal has ended this command. DVC and its stage have ended, too.
    """
    with (
        subprocess.Popen(
            [sys.executable, "-m", "dvc", "repro", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | {"PYTHONUNBUFFERED": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            preexec_fn=partial(end_with_starter, signal.SIGTERM),
        ) as process,
        ThreadPoolExecutor(1) as beside,
    ):
        beside.submit(_show, cast(IO[str], process.stdout))
        stderr, lines = cast(IO[str], process.stderr), []
        try:
            for line in stderr:
                print(line, end="", file=sys.stderr, flush=True)
                lines.append(line)
        except Interrupted:
            process.terminate()  # DVC's stage ends with DVC
            sys.stderr.write(stderr.read())
            raise
    return process.returncode, "".join(lines)


def _show(stdout: IO[str]) -> None:
    for line in stdout:
        if line.strip() and not HINTS.match(line):
            print(line, end="", flush=True)


def exit_status(words: str) -> int | None:
    """Return the exit status of a failed stage if DVC's error output `words` names one, otherwise None.

    If a signal ended the stage, return 128 plus the signal's number.
    """
    found = re.search(r"exited with (-?\d+)", words)
    status = int(found[1]) if found else None
    return 128 - status if status and status < 0 else status


def remedy(words: str) -> str:
    """Return advice on the error output `words` of DVC and its stages."""
    for pattern, told in REMEDIES.items():
        if re.search(pattern, words):
            return told
    status = exit_status(words)
    if status is None:
        return f"dvc repro --verbose says more. Fix what it names; {AGAIN}"
    if status == 128 + signal.SIGKILL:
        return f"A stage was killed, probably because memory ran out (see `dmesg`). End what else needs memory; {AGAIN}"
    if status in [128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)]:
        return GOES_ON
    return f"Fix what the message above names; {AGAIN}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.repro", description=__doc__)
    parser.add_argument(
        "--for-this-machine", action="store_true", help="compose PROFILE=gpu in place of an unchanged quick on a GPU"
    )
    run(main, parser)
