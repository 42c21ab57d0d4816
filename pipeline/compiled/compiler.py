"""A process that compiles programs for one target, as they are asked for."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import IO, Any, cast

from pipeline.compiled.lowering import MAX_WORDS
from pipeline.compiled.programs import Step
from pipeline.compiled.reading import read_answer
from pipeline.compiled.schema import CompiledProgram
from pipeline.compiled.targets import Target
from pipeline.errors import InputError


class Compiler:
    """Compile programs for one target in a process of its own, which is started again where a compiler ended it.

    Args:
        known: what was compiled before. A program that has not changed since is not compiled again.
    """

    def __init__(self, target: Target, known: Iterable[CompiledProgram] = ()) -> None:
        self._target = target
        self._known = {_key(found): found for found in known if found.memory}
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def compile(self, program: Step) -> CompiledProgram:
        """Return what the compiler says of `program`; that it ended its process is an answer too.

        Raises:
            InputError: the compiler is not installed, or the program can't be made.
        """
        known = self._known.get(_key(program))
        asked = {"program": program.model_dump(mode="json"), "known": known.program_sha256 if known else None}
        answer = self._ask(asked)
        return known if known and "unchanged" in answer else read_answer(program, answer)

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of the process; where its compiler ended it, a refusal with its last words."""
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
        if line := stdout.readline():
            return cast(dict[str, Any], json.loads(line))
        status, errors = self._process.wait(), cast(IO[str], self._errors)
        errors.seek(0)
        said = errors.read()
        self._end()
        if status in (1, 2):  # Python ended by itself: a fault of the input or of this project
            raise InputError(f"{self._target.title}: {last_message(said)}")
        if status == -9:
            raise InputError(f"{self._target.title}: the system ended the compiler, mostly for lack of memory here.")
        words = f"the compiler ended its process with status {status}: {said[-MAX_WORDS:].strip()}"
        return {"program_sha256": None, "refused": words, "seconds": 0.0}

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


def _key(program: Step | CompiledProgram) -> tuple[str, str, int]:
    """Return what names a program within a target, for one that is asked for and for one that was compiled."""
    return program.benchmark, program.precision, program.batch_size
