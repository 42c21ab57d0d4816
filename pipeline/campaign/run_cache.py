"""Find the stages that are not finished, here or on any machine. Nothing else calls private functions of DVC.

`dvc repro` and `dvc status` note every path that they look at in a file, several times a stage: half a minute for a
thousand finished runs.

DVC's run cache is where machines meet: a stage that one machine has run is known to all that see the cache. DVC has no
command that asks it about all stages at once. `dvc repro` enters finished runs one after the other, and reads and
writes the whole of dvc.lock for each: hours for a thousand runs.
"""

import contextlib
import logging
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

TRIED_WITH = "3.67.1"  # of DVC: whoever takes another one sees its test pass first


def nothing_is_left(root: Path = Path(), stages: Collection[str] = ()) -> bool:
    """Return whether `dvc repro` would find `stages` under `root` as dvc.lock has them, by default all of them.

    Where DVC fails, it would not.

    DVC asks the same three questions of a stage: is it written otherwise, what has changed of its deps, and its outs?
    """
    with contextlib.suppress(Exception), _opened(root) as repo:  # what is wrong, `dvc repro` says in words
        return not any(
            stage.changed_stage() or any(part.status() for part in (*stage.deps, *stage.outs))
            for stage in repo.index.stages
            if not stages or stage.addressing in stages
        )
    return False


@contextlib.contextmanager
def _opened(root: Path) -> Iterator[Any]:
    """Open the repository at `root`, locked, without git, whose index DVC would read once more for each run."""
    from dvc.repo import Repo  # which takes a while to import

    logging.getLogger("dvc").setLevel(logging.WARNING)  # or it names every stage that it finds
    with (
        contextlib.chdir(root),
        Repo(config={"core": {"no_scm": True}}) as repo,
        repo.lock,
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
    ):
        # The lock is held. DVC notes beside it which stage reads what, eight writes to disk for each, and, of each file
        # put in place, that it may be a link: a database opened, written and closed.
        repo.tmp_dir = memory
        repo.state.set_link = lambda *_: None
        yield repo


def missing_stages(stages: Sequence[str], root: Path, remote: bool, restore: bool = False) -> list[str]:
    """Return those of `stages` that no machine has finished, for the code and the data under `root`.

    Args:
        remote: look in DVC's default remote too, and fetch what is there.
        restore: put what is finished in its place and enter it in dvc.lock, all at once.
    """
    from dvc.dvcfile import LOCK_FILE, Lockfile  # as above
    from dvc.stage.cache import RunCacheNotFoundError

    missing, finished = [], []
    with _opened(root) as repo:
        if remote:
            repo.stage_cache.pull(None)
        known = {stage.addressing: stage for stage in repo.index.stages}
        for name in stages:
            stage = known[name]
            # First what dvc.lock names, if it was made from what lies here: DVC restores it either way. Where that is
            # damaged, another machine may have made it anew.
            is_current = all(out.hash_info for out in stage.outs) and not stage.changed_deps()
            stage.save_deps()
            for forget in (False, True) if is_current else (True,):
                if forget:
                    for out in stage.outs:
                        out.clear()
                with contextlib.suppress(RunCacheNotFoundError):
                    repo.stage_cache.restore(stage, pull=remote, dry=not (remote or restore))
                    finished.append(stage)
                    break
            else:
                missing.append(name)
        if restore:
            for stage in finished:
                stage.save_outs()
            Lockfile(repo, LOCK_FILE).dump_stages(finished)
    return missing
