"""Recompute a published study from its records, with this project's code, and compare it with the published one."""

import math
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from papermill import PapermillExecutionError

from pipeline.claims.results import load_results
from pipeline.claims.verdicts import judge_results, verdicts_text
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import COMPILED_FOR, MEASURED, RECOMPUTED, unpack
from pipeline.publication.project_files import not_of_project
from pipeline.report.rendering import execute, render
from pipeline.report.status import status, status_text
from pipeline.study.schema import load_study

# Every run of digits is tried once: a line of a million of them must not take a million squared steps.
_NUMBER = re.compile(r"-?(?<!\d)\d++(?:\.\d++)?(?:e[-+]?\d++)?", re.ASCII)
# What a stranger's values of the right type and the wrong meaning end in.
SURPRISES = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)


class Recomputation(NamedTuple):
    """Hold the recomputed report, and list what agrees, what was taken as published, and what differs and how."""

    html: str
    num_runs: int
    same: list[str]
    taken: list[str]
    differing: dict[str, str]

    @property
    def differences(self) -> str:
        return "\n".join(f"  {name}: {what}" for name, what in self.differing.items())


def recompute(archive: Path) -> Recomputation:
    """Compare, judge and render from the records in `archive`. Run nothing of it.

    Raises:
        InputError: the archive is not as it was published, or its records give no report.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        try:
            published = unpack(archive, root)
            made = remake(root)
            made["results/report.html"] = render(execute(root))
            num_runs = len(load_study(root / "params.yaml").runs())
        except (InputError, PapermillExecutionError, *SURPRISES) as error:
            words = words_of(error, root)
            raise InputError(
                words if str(archive) in words else f"{excerpt(archive)} does not recompute: {words}"
            ) from None
        what_was_taken = taken(root)
    found = {file: first_difference(published.get(file), made[file]) for file in RECOMPUTED}
    return Recomputation(
        html=made["results/report.html"],
        num_runs=num_runs,
        same=[file for file, what in found.items() if what is None],
        taken=what_was_taken,
        differing={file: what for file, what in found.items() if what is not None},
    )


def words_of(error: Exception, root: Path) -> str:
    """Say what ended the reading of the archive that is unpacked in `root`."""
    if isinstance(error, InputError):
        return str(error).replace(f"{root}/", "")
    if isinstance(error, PapermillExecutionError):
        return excerpt(f"{error.ename}: {error.evalue}")
    return excerpt(f"{type(error).__name__}: {error}")


def remake(root: Path) -> dict[str, str]:
    """Write every file of `RECOMPUTED` but the report under `root`, from the records, and return their texts."""
    for name in RECOMPUTED:
        (root / name).unlink(missing_ok=True)
    made: dict[str, str] = {}

    def write(texts: dict[str, str]) -> None:
        for name, text in texts.items():
            (root / name).write_text(text, encoding="utf-8", newline="")
        made.update(texts)

    write(compare_runs(root)[1])
    write({"results/verdicts.json": verdicts_text(judge_results(root))})
    write({"results/status.json": status_text(status(load_results(root)))})
    return made


def first_difference(published: bytes | None, recomputed: str) -> str | None:
    """Say in words where a published file differs from the recomputed one; return None where they are the same.

    Numbers with a fraction may differ in the tenth digit; texts and whole numbers may not.
    """
    if published is None:
        return "it is not in the archive"
    if published == recomputed.encode():
        return None
    if recomputed.lstrip().startswith("<"):
        return "it is another report"
    theirs, ours = published.decode(errors="replace").split("\n"), recomputed.split("\n")
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        if not _agree(their, our):
            return f"line {number} is {excerpt(their.strip())!a}, recomputed {excerpt(our.strip())!a}"
    return None if len(theirs) == len(ours) else f"it has {len(theirs)} lines, recomputed {len(ours)}"


def _agree(theirs: str, ours: str) -> bool:
    """Return whether two lines have the same texts, and between them the same numbers but for rounding.

    What looks like a number may be an identifier, such as 550.10: a number is one that Python writes so.
    """
    if theirs == ours:
        return True
    pairs = zip(_NUMBER.findall(theirs), _NUMBER.findall(ours), strict=False)
    return _NUMBER.split(theirs) == _NUMBER.split(ours) and all(
        one == other or _close(one, other) for one, other in pairs
    )


def _close(one: str, other: str) -> bool:
    # Another processor rounds the last digit of a logarithm otherwise.
    are_floats = repr(float(one)) == one and repr(float(other)) == other
    return are_floats and math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-12)


def taken(root: Path) -> list[str]:
    """Say in words what the recomputation of the archive unpacked in `root` starts from, and what it leaves aside."""
    names = ("params.yaml", "claims.yaml", *MEASURED, *COMPILED_FOR)
    return [
        "what the records, epochs and predictions under runs/ say was measured, and the environments they name",
        "what the blocks under results/speed/ say was measured",
        *(name for name in names if (root / name).is_file()),
        *(f"{name} (NOT as this project has it)" for name in not_of_project(root)),
    ]
