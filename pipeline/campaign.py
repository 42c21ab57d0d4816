"""Making a campaign ready: a clone on a branch of its own, with the campaign's name, fresh seeds, ledgers and data.

Several machines may do it at once, with or without a common file system. The origin decides between them: a campaign's
branch and the last seeds given out are pushed together, or not at all, and who comes second takes what is there.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from pipeline.errors import InputError
from pipeline.history import LEDGER, read_ledger
from pipeline.study import PARAMS, Study, load_study

CAMPAIGNS = Path(".campaigns")
COLLECTOR = "collector"
REMOTE = "remote"  # a file in the campaign's folder, where machines meet at DVC's default remote
STAGES = "stages.txt"
LATEST = "refs/campaigns/latest"  # at the origin: the campaign that was given the highest seeds


def prepare(name: str, root: Path, remote: bool) -> Path:
    """Makes the campaign's clone, unless it is there; returns the campaign's folder, absolute.

    Args:
        root: the checkout that the campaign repeats. Its own origin is the campaign's origin where `remote` is set and
            it has one; else the checkout itself.
        remote: machines meet at DVC's default remote, not at the cache of `root`.

    Raises:
        InputError: git or DVC failed; nothing half-made stays.
    """
    folder = (root / CAMPAIGNS / name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent / ".lock"), tempfile.TemporaryDirectory(prefix="partial-", dir=folder) as partial:
        collector = folder / COLLECTOR
        if not collector.exists():
            _make(name, root.absolute(), Path(partial, COLLECTOR), remote)
            if remote:
                (folder / REMOTE).touch()
            try:
                Path(partial, COLLECTOR).rename(collector)
            except OSError:
                if not collector.exists():  # else somebody was quicker, where files can't be locked
                    raise
    return folder


def load_committed_study(collector: Path) -> Study:
    """The campaign's study as it was committed: a collector that was ended may have left another in its place."""
    run("git", "checkout", "--quiet", "HEAD", "--", str(PARAMS), folder=collector)
    return load_study(collector / PARAMS)


def write_stages(folder: Path, stages: list[str]) -> None:
    """Writes the list that run.sh counts in, whole or not at all: several pods write the same one."""
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        file.writelines(f"{stage}\n" for stage in stages)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(folder / STAGES)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Waits until no other process of this file system prepares a campaign: that spares a second download."""
    with path.open("a") as file:
        with contextlib.suppress(OSError):  # a file system without locks: both prepare, and one is discarded
            fcntl.lockf(file, fcntl.LOCK_EX)
        yield


def _make(name: str, root: Path, clone: Path, remote: bool) -> None:
    run("git", "clone", "--quiet", str(root), str(clone))
    config = Path(".dvc", "config.local")
    (clone / config).touch()
    if (root / config).exists():
        shutil.copy(root / config, clone / config)
    if remote:
        if "origin" in run("git", "remote", folder=root).split():
            address = run("git", "remote", "get-url", "origin", folder=root).strip()
            run("git", "remote", "set-url", "origin", address, folder=clone)
        try:
            default = run("dvc", "remote", "default", folder=clone).strip()
        except InputError:
            raise InputError("DVC has no default remote to meet at: dvc remote add --default NAME ADDRESS") from None
        if re.search(rf"^{re.escape(default)}\s+https?:", run("dvc", "remote", "list", folder=clone), re.MULTILINE):
            raise InputError(f"DVC shares no runs over HTTP, which the remote {default} speaks. Meet at another one")
    else:
        cache = run("dvc", "cache", "dir", folder=root).strip() or ".dvc/cache"
        run("dvc", "cache", "dir", "--local", str(root / cache), folder=clone)
    _claim(name, clone)
    run(
        "dvc",
        "repro",
        "--quiet",
        *(["--pull"] if remote else []),
        "download",
        "inputs",
        "variants",
        "code",
        folder=clone,
    )
    if remote:
        run("dvc", "push", "--quiet", "--run-cache", "download", "inputs", "variants", "code", folder=clone)
    if run("git", "status", "--porcelain", folder=clone):
        _commit(clone, f"Campaign {name}: data")


def _claim(name: str, clone: Path) -> None:
    """Gives the campaign seeds that no other has and pushes its branch, or takes the branch that another has pushed."""
    branch, base = f"refs/heads/campaign/{name}", run("git", "rev-parse", "HEAD", folder=clone).strip()
    seen, refused = None, ""
    while True:
        lines = run("git", "ls-remote", "origin", branch, LATEST, folder=clone).splitlines()
        there = {reference: commit for commit, reference in map(str.split, lines)}
        if branch in there:
            run("git", "fetch", "--quiet", "origin", branch, folder=clone)
            run("git", "switch", "--quiet", "--force-create", f"campaign/{name}", "FETCH_HEAD", folder=clone)
            return
        if there == seen:
            raise InputError(refused)
        seen = there
        run("git", "switch", "--quiet", "--force-create", f"campaign/{name}", base, folder=clone)
        seeds = _fresh(name, clone, LATEST in there)
        _commit(clone, f"Campaign {name}: seeds {seeds}")
        # Each lease is on what was seen above, nothing or a commit: a push in between makes this one fail.
        leases = [f"--force-with-lease={reference}:{there.get(reference, '')}" for reference in (branch, LATEST)]
        both = [f"HEAD:{branch}", f"HEAD:{LATEST}"]
        try:
            run("git", "push", "--quiet", "--atomic", *leases, "origin", *both, folder=clone)
        except InputError as error:
            refused = str(error)
        else:
            return


def _fresh(name: str, clone: Path, earlier: bool) -> list[int]:
    """Writes the campaign's name and seeds, and adds the ledgers of campaigns that nobody has merged yet.

    Args:
        earlier: the origin has a campaign already, which may not have finished.
    """
    run("git", "fetch", "--quiet", "origin", "+refs/heads/campaign/*:refs/remotes/origin/campaign/*", folder=clone)
    listed = run("git", "for-each-ref", "--format=%(refname)", "refs/remotes/origin/campaign/", folder=clone)
    for branch in listed.split():
        for path in run("git", "ls-tree", "--name-only", branch, f"{LEDGER}/", folder=clone).split():
            if not (clone / path).exists():
                run("git", "checkout", "--quiet", branch, "--", path, folder=clone)
    used = {seed for entry in read_ledger(clone / LEDGER) for seed in entry.seeds}
    if earlier:
        run("git", "fetch", "--quiet", "origin", LATEST, folder=clone)
        used |= set(yaml.safe_load(run("git", "show", f"FETCH_HEAD:{PARAMS}", folder=clone))["seeds"])
    values = yaml.safe_load((clone / PARAMS).read_text(encoding="utf-8"))
    seeds: list[int] = values["seeds"]
    if used:
        seeds = list(range(max(used) + 1, max(used) + 1 + len(seeds)))
    text = yaml.safe_dump(values | {"campaign": name, "seeds": seeds}, sort_keys=False)
    (clone / PARAMS).write_text(text, encoding="utf-8")
    return seeds


def _commit(clone: Path, message: str) -> None:
    run("git", "add", "--all", folder=clone)
    run("git", "commit", "--quiet", "--allow-empty", "--message", message, folder=clone)


def run(*command: str, folder: Path = Path()) -> str:
    """What a command prints. Raises `InputError` with its own words where it fails."""
    environment = os.environ | {"PYTHONPATH": str(folder.absolute())}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout
