"""Say what to do where `dvc repro` fails."""

import re
import signal

from pipeline.machine.job import ENDING

AGAIN = "then `make repro` goes on from there: what is finished stays."
GOES_ON = "`make repro` goes on after the last whole epoch."
MEMORY = "where memory runs out (`dmesg` tells). End what else needs memory"
# By what DVC's words have in them; the first that fits.
REMEDIES = {
    "was ended by SIGKILL": f"The system does so {MEMORY}; {AGAIN}",
    "was ended by SIG": GOES_ON,
    "No space left|Disk quota exceeded": f"Make room on the disk; {AGAIN}",
    "acquire lock|is busy": f"Another DVC command works in this folder. Wait until it has ended, or end it; {AGAIN}",
    "is not a git repository": f"DVC works in a git repository. Clone this project with git, or run: git init; {AGAIN}",
    r"dvc\.lock": f"Remove dvc.lock: finished runs are found in DVC's cache; {AGAIN}",
}
_EXITED = re.compile(r"exited with (-?\d+)")


def exit_status(words: str) -> int | None:
    """Return the exit status of the stage, where DVC's `words` have one; negative or above 128 for a signal."""
    found = _EXITED.search(words)
    return int(found[1]) if found else None


def remedy(words: str, stage: str | None) -> str:
    """Return what to do, given DVC's own `words`, and the stage that failed where it was one."""
    status = exit_status(words)
    if stage and status is not None:
        return _of_a_stage(stage, status)
    for pattern, told in REMEDIES.items():
        if re.search(pattern, words):
            return told
    return f"dvc repro --verbose {stage or ''}".rstrip() + f" says more. Mend what it names; {AGAIN}"


def _of_a_stage(stage: str, status: int) -> str:
    by_itself = f"dvc repro --single-item {stage} tries it by itself; {AGAIN}"
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return f"It was killed, as the system does {MEMORY}, or take a smaller batch_size; {AGAIN}"
    if number in ENDING:
        return f"It was told to end ({signal.Signals(number).name}); {GOES_ON}"
    if 0 < number < signal.NSIG:
        return f"The process broke down ({signal.strsignal(number)}). {by_itself}"
    if status == 2:
        return f"Mend what its message above names; {AGAIN}"
    return GOES_ON if status == 75 else f"Its message is above. {by_itself}"
