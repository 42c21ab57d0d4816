"""Recompute a published study from its records, with this project's code, and compare it with the published one."""

import json
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
from pipeline.files.untrusted import excerpt, read_bytes
from pipeline.publication.archive import GET_IT_AGAIN, MEASURED, RECOMPUTED, unpack
from pipeline.report.rendering import PROJECT, execute, render
from pipeline.report.status import status, status_text
from pipeline.study.schema import load_study

_NUMBER = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?(?:e[-+]\d+)?)(?![\w.])")
# Another processor rounds the last digit of a logarithm otherwise.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12


class Recomputation(NamedTuple):
    """Hold the recomputed report, and list what agrees, what was taken as published, and what differs and how."""

    html: str
    num_runs: int
    same: list[str]
    taken: list[str]
    differing: dict[str, str]


def recompute(archive: Path) -> Recomputation:
    """Compare, judge and render from the records in `archive`. Run nothing of it.

    Raises:
        InputError: the archive is not as it was published, or its records give no report.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        try:
            unpack(archive, root)
            published = {file: read_bytes(root / file, GET_IT_AGAIN) for file in RECOMPUTED if (root / file).is_file()}
            made = remake(root)
            made["results/report.html"] = render(execute(root))
            taken = _taken(root)
            num_runs = len(load_study(root / "params.yaml").runs())
        except (InputError, PapermillExecutionError) as error:
            text = f"{error.ename}: {error.evalue}" if isinstance(error, PapermillExecutionError) else str(error)
            text = text.replace(f"{root}/", "")
            raise InputError(
                text if str(archive) in text else f"{excerpt(archive)} does not recompute: {text}"
            ) from None
    found = {file: first_difference(published.get(file), made[file]) for file in RECOMPUTED}
    return Recomputation(
        html=made["results/report.html"],
        num_runs=num_runs,
        same=[file for file, what in found.items() if what is None],
        taken=taken,
        differing={file: what for file, what in found.items() if what is not None},
    )


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

    Numbers with a fraction may differ in the tenth digit.
    """
    if published is None:
        return "it is not in the archive"
    if published == recomputed.encode():
        return None
    if recomputed.lstrip().startswith("<"):
        return "it is another report"
    try:
        theirs, ours = published.decode().split("\n"), recomputed.split("\n")
    except UnicodeDecodeError:
        return "it is no text"
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        if not _agree(their, our):
            return (
                f"line {number} is {json.dumps(excerpt(their.strip()))}, recomputed {json.dumps(excerpt(our.strip()))}"
            )
    return None if len(theirs) == len(ours) else f"it has {len(theirs)} lines, recomputed {len(ours)}"


def _agree(theirs: str, ours: str) -> bool:
    """Return whether two lines have the same words, and in the same places the same numbers."""
    if theirs == ours:
        return True
    pairs = list(zip(_NUMBER.split(theirs), _NUMBER.split(ours), strict=False))
    return len(_NUMBER.split(theirs)) == len(_NUMBER.split(ours)) and all(
        one == other or (index % 2 == 1 and _close(one, other)) for index, (one, other) in enumerate(pairs)
    )


def _close(one: str, other: str) -> bool:
    if one.lstrip("-").isdigit() and other.lstrip("-").isdigit():
        return False
    return math.isclose(float(one), float(other), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _taken(root: Path) -> list[str]:
    """Say in words what the recomputation starts from."""
    ours = (PROJECT / "claims.yaml").read_bytes() == (root / "claims.yaml").read_bytes()
    return [
        "what the records, epochs and predictions under runs/ say was measured, and the environments they name",
        "params.yaml",
        f"claims.yaml ({'the same as' if ours else 'NOT that of'} this project)",
        *(name for name in MEASURED if (root / name).is_file()),
        "what describes the archive and the software (not read)",
    ]
