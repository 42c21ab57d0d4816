"""Copies of this project with a study of their own, for tests that run it as its users do."""

import shutil
import subprocess
from pathlib import Path

from conftest import REPOSITORY

IDENTITY = {f"GIT_{role}_{what}": "t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def copy_tree(folder: Path, *, without: tuple[str, ...] = ()) -> None:
    """This working tree but for dvc.lock, what git ignores, and what begins with one of `without`."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if name != "dvc.lock" and not name.startswith(without) and (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
