"""A process that compiles programs for one target. Every answer is kept, and an interruption loses one program."""

import gzip
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

from pipeline.compiled.lowering import ENVIRONMENT, MAX_WORDS, versions
from pipeline.compiled.programs import Step
from pipeline.compiled.reading import read_answer
from pipeline.compiled.schema import CompiledProgram
from pipeline.compiled.sources import STEP_CODE, step_sources
from pipeline.compiled.targets import Target
from pipeline.errors import InputError
from pipeline.study.user_code import digest

ANSWERS = Path(".cache/compiled")


class Compiler:
    """Compile programs for one target in a process of its own, which is started again where a compiler ended it.

    Args:
        known: what was compiled before. A program that has not changed since is not compiled again.
        answers: a folder in which answers lie under names that say all they depend on.
    """

    def __init__(self, target: Target, known: Iterable[CompiledProgram] = (), answers: Path = ANSWERS) -> None:
        self._target = target
        self._known = {_key(found): found for found in known if found.memory}
        self._answers = answers
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None
        self._basis = json.dumps(
            [target.description(versions(target)), versions(target), ENVIRONMENT, step_sources()], sort_keys=True
        )

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def compile(self, program: Step) -> CompiledProgram:
        """Return what the compiler says of `program`; that it ended its process is an answer too.

        Raises:
            InputError: the compiler is not installed, or the program can't be made.
        """
        path = self._path(program)
        known = self._known.get(_key(program))
        if not path.exists():
            asked = {"program": program.model_dump(mode="json"), "known": known.program_sha256 if known else None}
            if words := self._ask(asked | {"path": str(path)}):
                return read_answer(program, {"program_sha256": None, "refused": words, "seconds": 0.0})
        with gzip.open(path, "rt", encoding="utf-8") as file:
            answer = json.load(file)
        if "unchanged" not in answer:
            return read_answer(program, answer)
        path.unlink()  # it holds only for the file that is read now
        return cast(CompiledProgram, known)

    def _path(self, program: Step) -> Path:
        return self._answers / f"{answer_name(self._basis, program)}.json.gz"

    def _ask(self, asked: dict[str, Any]) -> str | None:
        """Have `asked` compiled; return the last words of a compiler that ended the process."""
        if self._process is None:
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stages.compile_program", "--target", self._target.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        stdin, stdout = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        print(json.dumps(asked), file=stdin, flush=True)
        if stdout.readline():
            return None
        status, errors = self._process.wait(), cast(IO[str], self._errors)
        errors.seek(0)
        said = errors.read()
        self._end()
        if status in (1, 2):  # Python ended by itself: a fault of the input or of this project
            raise InputError(f"{self._target.title}: {last_message(said)}")
        if status == -9:
            raise InputError(f"{self._target.title}: the system ended the compiler, mostly for lack of memory here.")
        return f"the compiler ended its process with status {status}: {said[-MAX_WORDS:].strip()}"

    def _end(self) -> None:
        if self._process is not None and self._errors is not None:
            self._process.kill()
            self._process.communicate()
            self._errors.close()
            self._process = None


def last_message(said: str) -> str:
    """Return why a Python process ended: its own message, the exception of a traceback, or else its last line."""
    plain = "\n" + re.sub(r"\x1b\[\d*m", "", said).strip()
    _, own, message = plain.rpartition("\nerror: ")
    if not own:
        raised = plain.rpartition("Traceback (most recent call last):")[2]
        raised = raised.partition("\n-----")[0]  # below it JAX says how it shortens tracebacks
        exception = re.search(r"^[A-Za-z_][\w.]*: .*", raised, re.MULTILINE | re.DOTALL)
        message = exception[0] if exception else plain.rpartition("\n")[2]
    return re.sub(r"\n\n+", "\n", message)[:2000]


def answer_name(basis: str, program: Step) -> str:
    """Return a name that says all that the answer for `program` depends on, the code of a user's model included.

    Raises:
        InputError: there is no such code.
    """
    source = program.recipe["model"]["source"]
    code = "" if source in STEP_CODE else digest(Path(source))
    return hashlib.sha256((basis + code + program.model_dump_json()).encode()).hexdigest()


def _key(program: Step | CompiledProgram) -> tuple[str, str, int]:
    """Return what names a program within a target, for one that is asked for and for one that was compiled."""
    return program.benchmark, program.numbers, program.batch_size
