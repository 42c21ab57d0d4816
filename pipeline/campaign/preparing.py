"""Make a campaign's folder, which holds the study with the campaign's seeds, the data sets, and a copy of the code.

Jobs work only in this folder, so an edit of the checkout does not disturb queued jobs. Several machines that share a
file system may make the same folder at once.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pipeline.campaign.ledger import BASELINE
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.code import check_exists
from pipeline.files.locks import alone
from pipeline.files.places import PARAMS
from pipeline.files.untrusted import excerpt
from pipeline.study.configuration import differing, validate
from pipeline.study.schema import Study, load_study

CAMPAIGNS = Path("campaigns")
LEDGER = "ledger"  # the ledger's folder, next to the campaigns' folders
PROJECT = Path(__file__).parents[2]
CODE = ("CITATION.cff", "claims.yaml", "deploy/slurm", "pipeline", "requirements", "stages")
RESERVED = (LEDGER, Path(BASELINE).stem)  # not names of campaigns: the ledger has this folder and this file
MAX_SEED = 10**9  # short enough to read, and valid for every engine


def prepare_campaign(name: str, campaigns: Path) -> Path:
    """Make the folder `campaigns/name` from this checkout's study unless it exists. Return the folder's absolute path.

    Raises:
        InputError: the study or the name is not valid; the folder exists, with a different study; a model's source is
            missing or outside the project; or a data set can't be prepared. No partial folder remains.
    """
    study = load_study()
    validate(Study, study.model_dump(mode="json") | {"campaign": name}, "the study with this --campaign")
    if name in RESERVED:
        raise InputError(f"--campaign: {name} is the name of a file of the ledger. Choose another name")
    folder, seeds = campaigns.resolve() / name, campaign_seeds(name, len(study.seeds))
    values = yaml_files.load(PARAMS) | {"campaign": name, "seeds": seeds}
    folder.parent.mkdir(exist_ok=True)
    lock = alone(folder.parent / ".lock")
    with lock, tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as partial:
        if not folder.exists():
            made = Path(partial, name)
            _fill(made, study, values)
            made.rename(folder)
    _check_same(folder, values)
    return folder


def _check_same(folder: Path, values: dict[str, Any]) -> None:
    """Raise `InputError` if the study in a campaign's folder differs from `values`."""
    names = ", ".join(map(".".join, differing(yaml_files.load(folder / PARAMS), values)))
    if names:
        raise InputError(
            f"campaign {folder.name} is of another study, which differs in {excerpt(names)}. "
            "Choose another name: CAMPAIGN=…"
        )


def _fill(folder: Path, study: Study, values: dict[str, Any]) -> None:
    for name in CODE:
        if (PROJECT / name).exists():  # a container image lacks some of these
            _copy(PROJECT / name, folder / name)
    for benchmark in study.benchmarks.values():
        source = Path(benchmark.model.source)
        if ".." in source.parts:
            raise InputError(
                f"{source} is outside the project's folder, and a campaign copies only that. Copy your model into it"
            )
        if not (folder / source).exists():  # exists for a model of this project, and for an absolute path
            check_exists(source)
            _copy(source, folder / source)
    (folder / PARAMS).write_text(yaml_files.dump(values), encoding="utf-8")
    for dataset in study.datasets:
        command = [sys.executable, "-m", "stages.download", "--dataset", dataset]
        environment = os.environ | {"PYTHONPATH": str(folder)}
        if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
            raise InputError(f"the data set {dataset} could not be prepared, so nothing was submitted")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def campaign_seeds(name: str, num_seeds: int) -> list[int]:
    """Return `num_seeds` consecutive seeds, of which the first is a hash of the campaign's name.

    So every machine gets the same seeds for the same campaign.
    """
    digest = hashlib.sha256(name.encode()).digest()
    first = int.from_bytes(digest[:4], "big") % (MAX_SEED - num_seeds)
    return list(range(first, first + num_seeds))
