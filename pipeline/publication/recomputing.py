"""Recompute a published study from its records, with this project's code, and compare it with the published one."""

import filecmp
import math
import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from papermill import PapermillExecutionError

from pipeline.claims.schema import CLAIMS
from pipeline.claims.verdicts import judge_results, verdicts_text
from pipeline.comparison.comparing import compare_runs
from pipeline.comparison.sittings import SITTINGS
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import COMPILED_FOR, MEASURED, METADATA, RECOMPUTED, names_of_project, unpack
from pipeline.publication.publishing import describe
from pipeline.report.rendering import PROJECT, execute, render
from pipeline.report.results import load_results
from pipeline.report.status import status, status_text

# Every run of digits is tried once: a line of a million of them must not take a million squared steps.
_NUMBER = re.compile(r"-?(?<!\d)\d++(?:\.\d++)?(?:e[-+]?\d++)?", re.ASCII)
# What a stranger's values of the right type and the wrong meaning end in.
_SURPRISES = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)


class Recomputation(NamedTuple):
    """Hold the recomputed report, and list what agrees, what was taken as published, and what differs and how."""

    html: str
    num_runs: int
    same: list[str]
    taken: list[str]
    differing: dict[str, str]

    def check(self, refusal: str) -> None:
        """Raise an `InputError` of these words where anything differs."""
        if self.differing:
            differences = "\n".join(f"  {name}: {what}" for name, what in self.differing.items())
            raise InputError(f"{refusal}\n{differences}")


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
            results = load_results(root)
            made[METADATA] = describe(results, published.keys() - {METADATA}, root)
        except InputError as error:
            words = str(error).replace(f"{root}/", "")
            raise InputError(words if str(archive) in words else _does_not(archive, words)) from None
        except PapermillExecutionError as error:
            raise InputError(_does_not(archive, excerpt(f"{error.ename}: {error.evalue}"))) from None
        except _SURPRISES as error:
            raise InputError(_does_not(archive, excerpt(f"{type(error).__name__}: {error}"))) from None
        found = {file: first_difference(published.get(file), made[file]) for file in (*RECOMPUTED, METADATA)}
        return Recomputation(
            html=made["results/report.html"],
            num_runs=len(results.study.runs()),
            same=[file for file, what in found.items() if what is None],
            taken=_taken(root),
            differing={file: what for file, what in found.items() if what is not None},
        )


def _does_not(archive: Path, reason: str) -> str:
    return f"{excerpt(archive)} does not recompute: {reason}"


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


def bring_up_to_date(archive: Path, root: Path) -> None:
    """Unpack a study of this project into `root`, and make its results by today's code, claims and sittings.

    Raises:
        InputError: the archive is damaged, or its records don't fit together any more.
    """
    unpack(archive, root)
    for name in (str(CLAIMS), str(SITTINGS), *COMPILED_FOR):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(PROJECT / name, root / name)
    remake(root)
    (root / "results/report.html").write_text(render(execute(root)), encoding="utf-8")


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
    pairs = zip(_NUMBER.findall(theirs), _NUMBER.findall(ours), strict=False)
    return theirs == ours or (
        _NUMBER.split(theirs) == _NUMBER.split(ours) and all(one == other or _close(one, other) for one, other in pairs)
    )


def _close(one: str, other: str) -> bool:
    # Another processor rounds the last digit of a logarithm otherwise.
    are_floats = repr(float(one)) == one and repr(float(other)) == other
    return are_floats and math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-12)


def _taken(root: Path) -> list[str]:
    """Say in words what the recomputation of the archive unpacked in `root` starts from, and what it leaves aside."""
    names = ("params.yaml", "claims.yaml", "sittings.csv", *MEASURED, *COMPILED_FOR)
    return [
        "what the records, epochs and predictions under runs/ say was measured, and the environments they name",
        "what the blocks under results/speed/ say was measured",
        *(name for name in names if (root / name).is_file()),
        *(f"{name} (NOT as this project has it)" for name in not_of_project(root)),
    ]


def not_of_project(root: Path) -> list[str]:
    """List what every archive takes from this project, and the one unpacked in `root` lacks or has otherwise."""
    names = {str(CLAIMS), *names_of_project(PROJECT), *names_of_project(root)}
    return sorted(names - set(filecmp.cmpfiles(PROJECT, root, names, shallow=False)[0]))
