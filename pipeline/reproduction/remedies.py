"""Say what to do where `dvc repro` fails."""

import re
import signal

AGAIN = "then `make repro` goes on from there: what is finished stays."
LOCK = "dvc.lock"
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
    if "was ended by SIGKILL" in words:
        return f"The system does so where memory runs out (`dmesg` tells). End what else needs memory; {AGAIN}"
    if "was ended by SIG" in words:
        return "`make repro` goes on after the last whole epoch."
    if "No space left" in words or "Disk quota exceeded" in words:
        return f"Make room on the disk; {AGAIN}"
    if re.search(r"acquire lock|is busy", words):
        return f"Another DVC command works in this folder. Wait until it has ended, or end it; {AGAIN}"
    if "is not a git repository" in words:
        return f"DVC works in a git repository. Clone this project with git, or run: git init; {AGAIN}"
    if LOCK in words:
        return f"Remove {LOCK}: finished runs are found in DVC's cache; {AGAIN}"
    return f"dvc repro --verbose {stage or ''}".rstrip() + f" says more. Mend what it names; {AGAIN}"


def _of_a_stage(stage: str, status: int) -> str:
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return (
            "It was killed, as the system does where memory runs out (`dmesg` tells). End what else needs memory, or "
            f"take a smaller batch_size; {AGAIN}"
        )
    if number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        return f"It was told to end ({signal.Signals(number).name}); `make repro` goes on after the last whole epoch."
    if 0 < number < signal.NSIG:
        return f"The process broke down ({signal.strsignal(number)}). {_by_itself(stage)}"
    if status == 2:
        return f"Mend what its message above names; {AGAIN}"
    if status == 75:
        return "`make repro` goes on after the last whole epoch."
    return f"Its message is above. {_by_itself(stage)}"


def _by_itself(stage: str) -> str:
    return f"dvc repro --single-item {stage} tries it by itself; {AGAIN}"
