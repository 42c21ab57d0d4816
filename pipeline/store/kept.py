"""Store finished folders by their identities, and copy each folder to its place, such as `results/speed/mnist_dense`.

`obtain` makes a folder in `.cache/unfinished` and writes `identity.json` into the folder last. `obtain` then moves the
folder to `.cache/kept` and copies it to its place. DVC may empty and restore the places at any time, but does not touch
`.cache`.
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
    """Return the path of the store: `.cache` in the study's folder.

    A DVC experiment works in <study>/.dvc/tmp/exps/<name>, but uses the store <study>/.cache.
    """
    here = Path.cwd()
    return next((folder.parent for folder in here.parents if folder.name == ".dvc"), here) / ".cache"


def name_of(of: Identity) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:32]


def read_identity(folder: Path) -> dict[str, Any] | None:
    """Return the content of the folder's `identity.json`, or None if the file can't be read.

    The key `of` holds the identity, and the key `files` the SHA-256 of each file in the folder.
    """
    try:
        said: dict[str, Any] = json.loads((folder / IDENTITY).read_bytes())
    except (OSError, ValueError):
        return None
    return said


def is_made(folder: Path, of: Identity) -> bool:
    """Return whether `folder` has the identity `of`, and no file was changed, added or removed since `seal`."""
    said = read_identity(folder)
    return said is not None and said["of"] == of and said["files"] == _digests(folder)


def seal(folder: Path, of: Identity) -> None:
    """Write `identity.json` into `folder`, with the identity `of` and the SHA-256 of each file in the folder."""
    said = {"of": of, "files": _digests(folder)}
    (folder / IDENTITY).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def made(place: Path, of: Identity, counts: Callable[[Path], bool]) -> Path | None:
    """Return the first finished folder of the identity `of` that `counts` accepts, or None if there is none.

    Look first at `place`, then in the store.
    """
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
    """Put a folder of the identity `of` in `place`.

    Return "there" if `place` already was this folder, "kept" if the folder came from the store, or "made" if the folder
    was made now. If another process is making the same folder, wait until that process has ended its attempt.

    Args:
        make: writes the results into the folder that is its argument. The folder may hold files of an interrupted
            attempt. If `make` raises an error, the folder stays as it is.
        counts: returns whether a finished folder may be used.
        again: whether to make the folder even if a finished one exists, without the files of an interrupted attempt.
            The finished folder stays until the new one is made.
    """
    if not again and made(place, of, counts) == place:
        return "there"
    base, name = store(), name_of(of)
    kept, unfinished = base / "kept" / name, base / "unfinished" / name
    with alone(base / "locks" / name):
        folder = None if again else made(place, of, counts)
        if folder == place:  # another process made the folder while this one waited
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
    """Move the folder `place` into the store if its files are unchanged since `seal` and the store has no such folder.

    Otherwise, delete `place`.
    """
    said = read_identity(place)
    if said and is_made(place, said["of"]):
        kept = store() / "kept" / name_of(said["of"])
        if not kept.exists():
            with whole(kept) as copy:  # the store may be on another disk
                shutil.move(place, copy)
            return
    shutil.rmtree(place)


def prune(wanted: Iterable[Identity]) -> int:
    """Delete each folder in the store, finished or unfinished, whose identity is not in `wanted`.

    Keep folders that another process is still making. Return the number of deleted folders.
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
    """Copy the files of the finished folder `kept` to a new folder next to `place`, then rename that folder to `place`.

    Make no hard links, because DVC takes a long time to replace hard links with copies.
    """
    with whole(place) as copy:
        copy.mkdir()
        for path in sorted(kept.iterdir()):  # the error of shutil.copytree has no errno to tell that the disk is full
            shutil.copyfile(path, copy / path.name)


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / IDENTITY)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
