"""Check that what an archive says in this project's name is this project's: compiled programs, recipes and claims."""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.claims.schema import CLAIMS
from pipeline.compiled.programs import RECIPES
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import COMPILED_FOR
from pipeline.publication.own_code import GET_IT_AGAIN
from pipeline.report.rendering import PROJECT

# The section of claims.yaml that an entry stands in, and its name there.
Entry = tuple[str, str]
_NO_CLAIMS = b"{sources: {}, variants: {}, figures: [], claims: []}"
_HOW = "Take these files as this project has them, judge and report again with dvc repro, and publish again"


def check_project_files(root: Path, project: Path = PROJECT) -> None:
    """Check the files that claims are judged by in the archive unpacked in `root`.

    Each must be as `project` has it today, or had it at a commit from the one that the study names on: a study is
    judged and published after it was run. What was compiled and its recipes must be those of one commit.

    Raises:
        InputError: names the files, or the claims, that are not this project's.
    """
    commit = named_commit(root)
    _check_compiled(root, commit, project)
    _check_claims(root, commit, project)


def own_claims(root: Path) -> list[str]:
    """List the claims in the archive unpacked in `root` that this project does not have today."""
    theirs, ours = (dict(_entries((folder / CLAIMS).read_bytes())) for folder in (root, PROJECT))
    return [name for section, name in theirs if section == "claims" and (section, name) not in ours]


def named_commit(root: Path) -> str | None:
    """Return the commit that the study in `root` says it was made at, whatever else its environments hold."""
    try:
        commit = json.loads((root / "results/environments.json").read_bytes())[0]["git_commit"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return commit if isinstance(commit, str) and len(commit) == 40 and set(commit) <= set("0123456789abcdef") else None


def is_known(commit: str, project: Path = PROJECT) -> bool:
    """Return whether `project` was as a commit has it, and not only a branch that was merged.

    A branch may hold, between its first commit and its last, what no reviewer was shown.
    """
    return commit.encode() in (ask_git("rev-list", "--first-parent", "HEAD", project=project) or b"").split()


def ask_git(*arguments: str, project: Path = PROJECT) -> bytes | None:
    """Return what git prints of `project`, or None where it fails or there is no git."""
    try:
        return subprocess.run(["git", *arguments], cwd=project, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def _check_compiled(root: Path, commit: str | None, project: Path) -> None:
    theirs = _files(root, COMPILED_FOR)
    # Archives once had no recipes. Where there are none, no claim is judged by what was compiled.
    names = [name for name in COMPILED_FOR if name != str(RECIPES) or name in theirs]
    least: list[str] = []
    for version in _versions(COMPILED_FOR, commit, project):
        odd = [name for name in names if theirs.get(name) != version.get(name)]
        if not odd:
            return
        least = odd if not least or len(odd) < len(least) else least
    words = ", ".join(name if name in theirs else f"{name} (missing)" for name in least)
    raise InputError(f"{words}: not this project's, {_since(commit)}. {_HOW}: git checkout -- compiled conf")


def _check_claims(root: Path, commit: str | None, project: Path) -> None:
    """Compare each claim, source and variant of the project's, and the figures of its sources; others are the user's.

    A version is completed by what today's has besides: an old one is no way to take a name that came later.
    """
    theirs = _entries((root / CLAIMS).read_bytes())
    today: dict[Entry, Any] = {}
    least: list[str] = []
    for version in _versions((str(CLAIMS),), commit, project):
        ours = dict(_entries(version.get(str(CLAIMS), _NO_CLAIMS)))
        today = today or ours
        known = today | ours
        odd = [f"{section}.{name}" for (section, name), value in theirs if known.get((section, name), value) != value]
        if not odd:
            _check_own_claims([(name, value) for name, value in theirs if name not in known], known)
            return
        least = odd if not least or len(odd) < len(least) else least
    words = excerpt(", ".join(dict.fromkeys(least)), 500)
    raise InputError(
        f"{CLAIMS}: {words}: not as this project has it, {_since(commit)}. {_HOW}: git checkout -- {CLAIMS}. "
        "A claim of your own has a name of its own"
    )


def _check_own_claims(own: list[tuple[Entry, Any]], known: dict[Entry, Any]) -> None:
    """Refuse what a sender has a source of the project's say."""
    for (section, name), claim in own:
        ours = section == "claims" and ("sources", str(claim.get("source"))) in known
        if ours and claim.get("said_by") != "us":
            raise InputError(
                f"{CLAIMS}: {excerpt(name)} has {excerpt(claim['source'])} say what this project does not know of it. "
                "Write said_by: us, or name a source of your own"
            )


def _entries(content: bytes) -> list[tuple[Entry, Any]]:
    """Return what a text of claims.yaml defines, by section and name. A name may stand twice."""
    document = yaml_files.parse(content.decode(errors="replace"), str(CLAIMS))
    try:
        found = [
            ((part, str(name)), value) for part in ("sources", "variants") for name, value in document[part].items()
        ]
        figures: dict[str, list[Any]] = {}
        for figure in document["figures"]:
            figures.setdefault(str(figure["source"]), []).append(figure)
        found += [(("figures", name), value) for name, value in figures.items()]
        return found + [(("claims", str(claim["id"])), claim) for claim in document["claims"]]
    except (AttributeError, LookupError, TypeError):
        raise InputError(f"{CLAIMS} is damaged (it has no claims). {GET_IT_AGAIN.damaged}") from None


def _since(commit: str | None) -> str:
    return "neither today nor since the commit that the study names" if commit else "and the study names no commit"


def _versions(names: tuple[str, ...], commit: str | None, project: Path) -> Iterator[dict[str, bytes]]:
    """Yield the files of these names as they are today, then as they were at each commit from `commit` on."""
    yield _files(project, names)
    if commit and is_known(commit, project):
        since = (ask_git("rev-list", f"{commit}..HEAD", "--", *names, project=project) or b"").decode().split()
        for each in (*since, commit):
            yield _files_at(each, names, project)


def _files(root: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in names if (root / name).is_file()}


def _files_at(commit: str, names: tuple[str, ...], project: Path) -> dict[str, bytes]:
    listed = (ask_git("ls-tree", commit, "--", *names, project=project) or b"").decode().splitlines()
    blobs = {name: entry.split()[2] for entry, _, name in (line.partition("\t") for line in listed)}
    return {name: _blob(blob, project) for name, blob in blobs.items()}


@cache
def _blob(name: str, project: Path) -> bytes:
    return ask_git("cat-file", "blob", name, project=project) or b""
