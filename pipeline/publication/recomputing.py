"""Recompute a published study from its records, with this project's code, and compare it with the published one."""

import filecmp
import json
import math
import re
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from papermill import PapermillExecutionError

from pipeline.claims.results import load_results
from pipeline.claims.verdicts import judge_results, verdicts_text
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.files.untrusted import damaged, excerpt, read_bytes
from pipeline.publication.archive import (
    COMPILED_FOR,
    CROISSANT,
    MEASURED,
    NOT_READ,
    RECOMPUTED,
    files_of_project,
    unpack,
)
from pipeline.publication.croissant import TABLES, describe_tables
from pipeline.publication.own_code import GET_IT_AGAIN
from pipeline.report.rendering import PROJECT, execute, render
from pipeline.report.status import status, status_text
from pipeline.study.schema import load_study

# Texts in quotes, what stands between separators, and the separators. A quote that never ends takes the whole line.
_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"?|[^",:\[\]{}\s]+|.')
_CSV_PART = re.compile(r'"(?:[^"]|"")*"?|[^",]+|.')
_FRACTION = re.compile(r"-?[0-9]+(?=[.e])(\.[0-9]+)?(e[-+]?[0-9]+)?")
# What a stranger's values of the right type and the wrong meaning end in.
SURPRISES = (ArithmeticError, LookupError, StopIteration, TypeError, ValueError)
_TABLES = tuple(f"results/{table}.csv" for table in TABLES)
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
        root = Path(name, "study")
        try:
            unpack(archive, root)
            published = Path(name, "published")
            (published / "results").mkdir(parents=True)
            for file in (file for file in (*RECOMPUTED, CROISSANT) if (root / file).is_file()):
                (root / file).rename(published / file)
            made = remake(root)
            made["results/report.html"] = render(execute(root))
            found = {file: _difference(published / file, made[file]) for file in RECOMPUTED}
            if not any(found[table] for table in _TABLES):
                found[CROISSANT] = _difference(published / CROISSANT, _tables_described(root, published))
            num_runs = len(load_study(root / "params.yaml").runs())
        except (InputError, PapermillExecutionError) as error:
            text = f"{error.ename}: {error.evalue}" if isinstance(error, PapermillExecutionError) else str(error)
            text = text.replace(f"{root}/", "")
            raise InputError(
                text if str(archive) in text else f"{excerpt(archive)} does not recompute: {text}"
            ) from None
        except SURPRISES as error:
            raise damaged(archive, f"{type(error).__name__}: {error}", GET_IT_AGAIN) from None
        what_was_taken = taken(root)
    return Recomputation(
        html=made["results/report.html"],
        num_runs=num_runs,
        same=[file for file, what in found.items() if what is None],
        taken=what_was_taken,
        differing={file: what for file, what in found.items() if what is not None},
    )


def _tables_described(root: Path, published: Path) -> str:
    """Describe the published tables, whose digests may be others than those of the recomputed ones."""
    citation = root / "CITATION.cff"
    try:
        (published / citation.name).write_bytes(read_bytes(citation, GET_IT_AGAIN))
        return describe_tables(load_results(root), published)
    except (LookupError, TypeError) as error:
        raise damaged(citation, f"{type(error).__name__}: {error}", GET_IT_AGAIN) from None


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


def _difference(published: Path, recomputed: str) -> str | None:
    """Say where the file differs, as `first_difference` does, and read none that is much larger."""
    if not published.exists():
        return first_difference(None, recomputed)
    num_bytes, expected = published.stat().st_size, len(recomputed.encode())
    if num_bytes > 2 * expected:
        return f"it has {num_bytes} bytes, recomputed {expected}"
    return first_difference(read_bytes(published, GET_IT_AGAIN), recomputed)


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
    try:
        theirs, ours = published.decode().split("\n"), recomputed.split("\n")
    except UnicodeDecodeError:
        return "it is no text"
    is_json = recomputed.startswith(("{", "["))
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        if not _agree(their, our, is_json):
            return (
                f"line {number} is {json.dumps(excerpt(their.strip()))}, recomputed {json.dumps(excerpt(our.strip()))}"
            )
    return None if len(theirs) == len(ours) else f"it has {len(theirs)} lines, recomputed {len(ours)}"


def _agree(theirs: str, ours: str, is_json: bool) -> bool:
    """Return whether two lines have the same texts, and in the same places the same numbers."""
    if theirs == ours:
        return True
    parts = _JSON_PART if is_json else _CSV_PART
    pairs = list(zip_longest(parts.findall(theirs), parts.findall(ours), fillvalue=""))
    return all(one == other or _close(one, other, is_json) for one, other in pairs)


def _close(one: str, other: str, is_json: bool) -> bool:
    """Return whether two parts are the same number but for rounding.

    A cell of CSV may be an identifier such as 550.10: a number is one that Python writes so.
    """
    if not all(_FRACTION.fullmatch(part) and (is_json or str(float(part)) == part) for part in (one, other)):
        return False
    return math.isclose(float(one), float(other), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def taken(root: Path) -> list[str]:
    """Say in words what the recomputation of the archive unpacked in `root` starts from, and what it leaves aside."""
    names = sorted({"claims.yaml", *files_of_project(PROJECT), *files_of_project(root)})
    missing = [name for name in names if not (root / name).is_file()]
    other = not_of_project(root)
    ours = sorted(set(names) - {*missing, *other})
    return [
        "what the records, epochs and predictions under runs/ say was measured, and the environments they name",
        "what the blocks under results/speed/ say was measured",
        *(name for name in ("params.yaml", *MEASURED, *COMPILED_FOR) if (root / name).is_file()),
        *(f"{name} (NOT that of this project)" for name in other),
        *(f"{name} (missing)" for name in missing),
        ", ".join(ours or ["nothing else"]) + " (as this project has them)",
        ", ".join(name for name in ("dvc.lock", *NOT_READ) if (root / name).is_file()) + " (not read)",
    ]


def not_of_project(root: Path) -> list[str]:
    """List the files unpacked in `root` that every archive takes from this project, and that are not as it has them."""
    names = {"claims.yaml", *files_of_project(PROJECT), *files_of_project(root)}
    there = [name for name in names if (root / name).is_file()]
    _, other, unknown = filecmp.cmpfiles(PROJECT, root, there, shallow=False)
    return sorted(other + unknown)
