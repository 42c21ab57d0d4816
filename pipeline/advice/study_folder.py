"""A folder whose study is made by this project's pipeline, beside the project's own study."""

import os
from pathlib import Path

from pipeline.files import yaml_files
from pipeline.files.writing import write_whole

# The pipeline, by links; the study, its claims and all that it makes are the folder's own.
LINKS = (
    "Dockerfile",
    "bundled",
    "compiled",
    "conf",
    "dvc.yaml",
    "pipeline",
    "report",
    "requirements",
    "sittings.csv",
    "stages",
)
NO_CLAIMS: dict[str, object] = {"sources": {}, "benchmarks": [], "variants": {}, "figures": [], "claims": []}


def make_folder(folder: Path, root: Path) -> None:
    """Make `folder` a DVC project that has the pipeline of `root`; its cache is its own, so that it goes with it."""
    (folder / ".dvc").mkdir(parents=True, exist_ok=True)
    write_whole(folder / ".dvc" / "config", "[core]\n    no_scm = true\n    analytics = false\n")
    write_whole(folder / "claims.yaml", yaml_files.dump(NO_CLAIMS))
    for name in LINKS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(seen_from(folder, name, root))


def seen_from(folder: Path, path: str, root: Path) -> str:
    """Return `path`, which is given from `root` on, as it is given from `folder` on; an absolute one stays."""
    return path if Path(path).is_absolute() else os.path.relpath(root / path, folder)
