"""Recompute a published study from its records, with this project's code; verify one that a stranger may have sent."""

import filecmp
import json
import math
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from papermill import PapermillExecutionError

from pipeline.claims.claims_file import CLAIMS, Claims, load_claims
from pipeline.claims.verdicts import judge_results, verdicts_text
from pipeline.comparison.comparing import compare_runs
from pipeline.comparison.tables import read_tables
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import (
    METADATA,
    RECOMPUTED,
    TAKEN,
    check_folder,
    check_size,
    is_published_earlier,
    names_of_project,
    unpack,
)
from pipeline.publication.crate import describe
from pipeline.report.rendering import PROJECT, execute, render
from pipeline.report.results import load_results
from pipeline.report.status import status, status_text
from pipeline.study.schema import load_study

OTHER_RESULTS = "{}: its records give other results than were published."
# Every run of digits is tried once: a line of a million of them must not take a million squared steps.
_NUMBER = re.compile(r"-?(?<!\d)\d++(?:\.\d++)?(?:e[-+]?\d++)?", re.ASCII)
# What a stranger's values of the right type and the wrong meaning end in.
_SURPRISES = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)


class Recomputation(NamedTuple):
    """Hold the recomputed report, and list what agrees, what was taken as published, and what differs and how.

    `not_ours` are files of this project that the archive lacks or has otherwise. `by_deletion` says of files that were
    published earlier what code that is gone had made of them; it is no fault.
    """

    html: str
    num_runs: int
    same: list[str]
    taken: list[str]
    not_ours: list[str]
    differing: dict[str, str]
    by_deletion: dict[str, str]

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
            is_earlier = is_published_earlier(archive)
            if is_earlier:  # by claims that today's judges read
                shutil.copyfile(PROJECT / CLAIMS, root / CLAIMS)
            made = remake(root)
            made["results/report.html"] = render(execute(root))
            results = load_results(root)
            made[METADATA] = describe(results, published.keys() - {METADATA}, root)
            by_deletion = _by_deletion(published, made, root) if is_earlier else {}
        except InputError as error:
            words = str(error).replace(f"{root}/", "")
            raise InputError(words if str(archive) in words else _does_not(archive, words)) from None
        except PapermillExecutionError as error:
            raise InputError(_does_not(archive, excerpt(f"{error.ename}: {error.evalue}"))) from None
        except _SURPRISES as error:
            raise InputError(_does_not(archive, excerpt(f"{type(error).__name__}: {error}"))) from None
        found = {file: first_difference(published.get(file), made[file]) for file in (*RECOMPUTED, METADATA)}
        by_deletion = {file: words for file, words in by_deletion.items() if found[file] is not None}
        return Recomputation(
            html=made["results/report.html"],
            num_runs=len(results.study.runs()),
            same=[file for file, what in found.items() if what is None],
            taken=_taken(root),
            not_ours=not_of_project(root),
            differing={file: what for file, what in found.items() if what is not None and file not in by_deletion},
            by_deletion=by_deletion,
        )


def _by_deletion(published: Mapping[str, bytes], made: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the files of an earlier archive, which code that is gone had made; in words, the verdicts that changed.

    Raises:
        InputError: an accuracy or a speed is another than was published.
    """
    ours = read_tables(load_study(root / "params.yaml"), root)
    for pair in json.loads(published["results/comparison.json"])["pairs"]:
        row = ours.pair(pair["benchmark"], pair["candidate"], pair["baseline"])
        numbers = {"difference_pp": pair["accuracy_difference_pp"]["mean"], "speedup": pair["speedup"]["ratio"]}
        for name, value in numbers.items():
            found = getattr(row, name)
            if None not in (found, value) and not math.isclose(found, value, rel_tol=1e-9, abs_tol=1e-9):
                raise InputError(f"{name} of {pair['candidate']} is {found}, and was published as {value}")
    theirs = {each["id"]: each["verdict"] for each in json.loads(published["results/verdicts.json"])["judgements"]}
    now = {each["id"]: each["verdict"] for each in json.loads(made["results/verdicts.json"])["judgements"]}
    changed = [
        f"{name} was {theirs[name]}, is {now[name]}" for name in now if theirs.get(name) not in (None, now[name])
    ]
    return dict.fromkeys((*RECOMPUTED, METADATA), "") | {"results/verdicts.json": "; ".join(changed)}


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
    """Unpack a study of this project into `root`, and make its results by today's code and claims.

    A file that differs in nothing but how this processor rounds stays as it is.

    Raises:
        InputError: the archive is damaged, or its records don't fit together any more.
    """
    published = unpack(archive, root)
    shutil.copyfile(PROJECT / CLAIMS, root / CLAIMS)
    for name, text in remake(root).items():
        if first_difference(published.get(name), text) is None:
            (root / name).write_bytes(published[name])
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
    """Say in words what the recomputation of the archive unpacked in `root` starts from."""
    return [
        "what the records, epochs and predictions under runs/ say was measured, and the environments they name",
        "what the blocks under results/speed/ say was measured",
        *(name for name in TAKEN if (root / name).is_file()),
    ]


def not_of_project(root: Path) -> list[str]:
    """List what every archive takes from this project, and the one unpacked in `root` lacks or has otherwise."""
    names = {str(CLAIMS), *names_of_project(PROJECT), *names_of_project(root)}
    return sorted(names - set(filecmp.cmpfiles(PROJECT, root, names, shallow=False)[0]))


def check_report(folder: Path) -> tuple[Recomputation, list[str]]:
    """Verify the published study in `folder`. Nothing of it is run.

    Returns:
        What its records give, and the claims that the sender added.

    Raises:
        InputError: a file is missing, too many, damaged or another than its archive's; or the study and
            its description do not follow from its records and this project's claims.
    """
    check_folder(folder)
    check_size(folder / "report.html")
    archive = folder / "crate.zip"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        unpack(archive, root)
        own_claims = [] if is_published_earlier(archive) else check_project_files(root)
    found = recompute(archive)
    found.check(OTHER_RESULTS.format(archive))
    return found, own_claims


def check_project_files(root: Path) -> list[str]:
    """Check the claims in the archive unpacked in `root`; return the sender's own claims.

    Raises:
        InputError: names the entries of the claims that are not as this project has them, or a claim of
            the sender's that has a source of the project's say what the project does not know of it.
    """
    claims, ours = load_claims(root / CLAIMS), _entries(load_claims(PROJECT / CLAIMS))
    odd = [f"{CLAIMS}: {name}" for name, value in _entries(claims).items() if ours.get(name, value) != value]
    if odd:
        raise InputError(
            f"{', '.join(odd)}: not as this project has it. Take {CLAIMS} from it, judge and report again with make "
            "repro, and publish again. A claim of your own has a name of its own"
        )
    for claim in claims.claims:
        if f"claims.{claim.id}" not in ours and f"sources.{claim.source}" in ours:
            raise InputError(
                f"{CLAIMS}: {claim.id} has {claim.source} say what this project does not know of it. Put it under "
                "findings, or name a source of your own"
            )
    return [claim.id for claim in claims.all if f"claims.{claim.id}" not in ours]


def _entries(claims: Claims) -> dict[str, Any]:
    """Return what claims define by section and name."""
    found: dict[str, Any] = {f"sources.{name}": source for name, source in claims.sources.items()}
    found |= {f"benchmarks.{name}": words for name, words in claims.benchmarks.items()}
    found |= {f"variants.{name}": variant for name, variant in claims.variants.items()}
    return found | {f"claims.{claim.id}": (claim in claims.findings, claim) for claim in claims.all}
