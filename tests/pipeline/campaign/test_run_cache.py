"""What this project takes from DVC besides documented commands. Where DVC changes, this is the test to fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import dvc
import pytest
import yaml
from projects import commit, git

from pipeline.campaign import run_cache
from pipeline.reproduction.study_progress import BEGUN, SKIPPED

STAGES = {
    "train": {
        "foreach": ["a", "b"],
        "do": {"cmd": "mkdir ${item} && cp in.txt ${item}/made", "deps": ["in.txt"], "outs": ["${item}"]},
    }
}
BOTH = ["train@a", "train@b"]


def test_dvc_does_what_this_project_was_tried_with(tmp_path):
    """Two machines that share a cache: one makes stages; the other finds them, puts them in place, and enters them."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            two_machines(tmp_path, patch)
        except Exception as error:
            pytest.fail(
                f"DVC {dvc.__version__} does not do what {run_cache.TRIED_WITH} did, in something that is used and not "
                f"documented: pipeline/campaign/run_cache.py calls it, pipeline/reproduction/study_progress.py reads "
                f"its lines. {type(error).__name__}: {error}"
            )
    assert dvc.__version__ == run_cache.TRIED_WITH, (
        f"DVC {dvc.__version__} passes this test. Campaigns were tried with {run_cache.TRIED_WITH}: where "
        "tests/cluster passes too, write the new version in pipeline/campaign/run_cache.py"
    )


def two_machines(folder: Path, patch: pytest.MonkeyPatch) -> None:
    first, second = folder / "first", folder / "second"
    (first / ".dvc").mkdir(parents=True)
    (first / ".dvc" / "config").write_text(f"[core]\n    analytics = false\n[cache]\n    dir = {folder / 'cache'}\n")
    (first / ".gitignore").write_text("/.dvc/tmp\n/a\n/b\n")
    (first / "dvc.yaml").write_text(yaml.safe_dump({"stages": STAGES}))
    (first / "in.txt").write_text("one")
    git(first, "init", "--quiet", "--initial-branch=main")
    commit(first)
    git(folder, "clone", "--quiet", str(first), str(second))
    patch.chdir(folder)

    assert run_cache.missing_stages(BOTH, second, remote=False) == BOTH
    assert BEGUN.search(repro(first))[1] == "train@a"
    assert run_cache.missing_stages(BOTH, second, remote=False) == BOTH[1:]
    assert not (second / "a").exists()
    assert run_cache.missing_stages(BOTH, second, remote=False, restore=True) == BOTH[1:]
    assert (second / "a" / "made").read_text() == "one"
    locked = yaml.safe_load((second / "dvc.lock").read_text())
    assert locked == yaml.safe_load((first / "dvc.lock").read_text())
    assert SKIPPED.search(repro(second))[1] == "train@a"
    shutil.rmtree(second / "a")
    (second / "dvc.lock").unlink()
    assert SKIPPED.search(repro(second))[1] == "train@a"  # out of the cache

    (second / "in.txt").write_text("two")  # and what dvc.lock names was made from other data
    assert run_cache.missing_stages(BOTH, second, remote=False, restore=True) == BOTH


def repro(folder: Path) -> str:
    """Return the line that DVC prints first of `train@a`."""
    command = [sys.executable, "-m", "dvc", "repro", "--single-item", "train@a"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
