"""Store finished folders by their identity, and copy them to their places in the study.

A folder is made in `.cache/unfinished`, and gets `identity.json` last. It is then moved to `.cache/kept` and copied to
its place. DVC may empty and restore the places at any time; the store stays.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from pipeline.files.locks import alone
from pipeline.files.writing import whole
from pipeline.store.identity import Identity

IDENTITY = "identity.json"


def store() -> Path:
    """Return the store of this study, even from within a DVC experiment in <study>/.dvc/tmp/exps/<name>."""
    here = Path.cwd()
    return next((folder.parent for folder in here.parents if folder.name == ".dvc"), here) / ".cache"


def name_of(of: Identity) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:32]


def read_identity(folder: Path) -> dict[str, Any] | None:
    """Return the folder's `identity.json`, with the identity `of` and the digests of `files`; None if unreadable."""
    try:
        said: dict[str, Any] = json.loads((folder / IDENTITY).read_bytes())
    except (OSError, ValueError):
        return None
    return said


def is_made(folder: Path, of: Identity) -> bool:
    """Return whether `folder` has this identity, and no file has changed since it was made."""
    said = read_identity(folder)
    return said is not None and said["of"] == of and said["files"] == _digests(folder)


def seal(folder: Path, of: Identity) -> None:
    """Write into `folder` its identity and the digests of its files."""
    said = {"of": of, "files": _digests(folder)}
    (folder / IDENTITY).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def made(place: Path, of: Identity, counts: Callable[[Path], bool]) -> Path | None:
    """Return a folder of this identity that `counts` accepts, from its place or from the store, or None."""
    for folder in (place, store() / "kept" / name_of(of)):
        if is_made(folder, of) and counts(folder):
            return folder
    return None


def obtain(
    place: Path,
    of: Identity,
    make: Callable[[Path], None],
    counts: Callable[[Path], bool] = lambda _: True,
    again: bool = False,
) -> Literal["there", "kept", "made"]:
    """Put a folder of this identity in `place`; return whether it was there, was kept in the store or was made now.

    If another process is making the same folder, wait for it.

    Args:
        make: fills the folder that it is given, which may hold what an interrupted attempt left. If `make` raises an
            error, the folder stays as it is.
        counts: returns whether a finished folder is still valid.
        again: whether to make the folder even if there is one. The old one stays until the new one is made.
    """
    if not again and made(place, of, counts) == place:
        return "there"
    base, name = store(), name_of(of)
    kept, unfinished = base / "kept" / name, base / "unfinished" / name
    with alone(base / "locks" / name):
        folder = None if again else made(place, of, counts)
        if folder == place:  # the other process made it
            return "there"
        if again:
            shutil.rmtree(unfinished, ignore_errors=True)
        if not folder:
            unfinished.mkdir(parents=True, exist_ok=True)
            make(unfinished)
            seal(unfinished, of)
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(exist_ok=True)
            unfinished.rename(kept)
        _place(kept, place)
    return "kept" if folder else "made"


def set_aside(place: Path) -> None:
    """Move a folder into the store if it is unchanged and not yet there; otherwise delete it."""
    said = read_identity(place)
    if said and is_made(place, said["of"]):
        kept = store() / "kept" / name_of(said["of"])
        if not kept.exists():
            with whole(kept) as copy:  # the store may be on another disk
                shutil.move(place, copy)
            return
    shutil.rmtree(place)


def prune(wanted: Iterable[Identity]) -> int:
    """Delete from the store all folders, finished or not, that are not `wanted`; return how many were deleted.

    Keep folders that another process is still making.
    """
    base, names = store(), {name_of(of) for of in wanted}
    folders = [*base.glob("kept/*"), *base.glob("unfinished/*")]
    num_deleted = 0
    for folder in folders:
        if folder.name not in names:
            with contextlib.suppress(BlockingIOError), alone(base / "locks" / folder.name, waits=False):
                shutil.rmtree(folder)
                num_deleted += 1
    return num_deleted


def _place(kept: Path, place: Path) -> None:
    """Copy a finished folder to its place in one step. Don't hard-link it: DVC is slow to break up links."""
    with whole(place) as copy:
        copy.mkdir()
        for path in sorted(kept.iterdir()):  # shutil.copytree would hide that the disk is full
            shutil.copyfile(path, copy / path.name)


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / IDENTITY)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
