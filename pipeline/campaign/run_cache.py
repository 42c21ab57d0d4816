"""Find the stages that no machine has finished. Nothing else in this project calls private functions of DVC.

DVC's run cache is where machines meet: a stage that one machine has run is known to all that see the cache. DVC has no
command that asks it about all stages at once. `dvc repro` enters finished runs one after the other, and reads and
writes the whole of dvc.lock for each: hours for a thousand runs.
"""

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

TRIED_WITH = "3.67.1"  # of DVC: whoever takes another one sees its test pass first


def missing_stages(stages: Sequence[str], root: Path, remote: bool, restore: bool = False) -> list[str]:
    """Return those of `stages` that no machine has finished, for the code and the data under `root`.

    Args:
        remote: look in DVC's default remote too, and fetch what is there.
        restore: put what is finished in its place and enter it in dvc.lock, all at once.
    """
    from dvc.dvcfile import LOCK_FILE, Lockfile  # which take a second to import
    from dvc.repo import Repo
    from dvc.stage.cache import RunCacheNotFoundError

    logging.getLogger("dvc").setLevel(logging.WARNING)  # or it names every stage that it finds
    missing, finished = [], []
    # Without git, whose index DVC would read once more for each run.
    with contextlib.chdir(root), Repo(config={"core": {"no_scm": True}}) as repo, repo.lock:
        if remote:
            repo.stage_cache.pull(None)
        known = {stage.addressing: stage for stage in repo.index.stages}
        for name in stages:
            stage = known[name]
            # First what dvc.lock names, if it was made from what lies here: DVC restores it either way. Where that is
            # damaged, another machine may have made it anew.
            is_current = not stage.changed_deps()
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
                stage.save(run_cache=False)
            Lockfile(repo, LOCK_FILE).dump_stages(finished)
    return missing
