"""Share a campaign out: what jobs ask of a cluster, and a clone with a branch, a name, seeds, ledgers and data.

Several machines may do it at once, with or without a common file system. Seeds follow from the campaign's name. The
first machine pushes the campaign's branch to the origin; the others take it from there, so that all run one commit.
"""

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from pipeline.campaign.ledger import BASELINE, LEDGER, CampaignEntry, read_ledger
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.writing import write_whole
from pipeline.machine.locking import alone
from pipeline.study.configuration import Section
from pipeline.study.schema import PARAMS, Study, load_study

CAMPAIGNS = Path(".campaigns")
COLLECTOR = "collector"
REMOTE = "remote"  # a file in the campaign's folder, where machines meet at DVC's default remote
STAGES_FILE = "stages.txt"
MAX_DOWNLOAD_SECONDS = 3600.0
PUSH_ATTEMPTS = 3
MAX_SEED = 10**9  # short enough to read, and what every engine takes
SPEED_STAGE = "speed@"


class Cluster(Section):
    """Describe what a cluster wants of a job: where machines meet, and the options of sbatch for one run.

    `exclusive_speed` is whether a job that measures speed has its node to itself.
    """

    meeting_place: Literal["shared_cache", "remote"]
    partition: str | None
    account: str | None
    time_limit: str
    warning_seconds: PositiveInt
    cpus: PositiveInt
    gpus: Annotated[int, Field(ge=0)]
    memory: str
    max_jobs: PositiveInt
    mail: str | None
    exclusive_speed: bool = True

    def arrays(self, stages: Sequence[str]) -> list[list[str]]:
        """Return the options of sbatch for each array of elements: of the runs, and of the speeds to be measured after.

        Other jobs on a node disturb a measurement of speed, the campaign's own as well. Where none can have a node to
        itself, one follows the other. A job that its time ended is queued again.

        Args:
            stages: in the order of `shared_stages`; an element is a place among them.
        """
        first_speed = sum(not stage.startswith(SPEED_STAGE) for stage in stages)
        alone, at_once = (["--exclusive"], self.max_jobs) if self.exclusive_speed else ([], 1)
        arrays = [(0, first_speed, self.max_jobs, []), (first_speed, len(stages), at_once, alone)]
        restart = ["--requeue", f"--signal=B:USR1@{self.warning_seconds}"]
        return [
            [f"--array={first}-{end - 1}%{num_jobs}", *restart, *more, *self._options(self.gpus)]
            for first, end, num_jobs, more in arrays
            if first < end
        ]

    def collector(self) -> list[str]:
        """Return the options of sbatch for the job that collects the others; it trains nothing."""
        mail = [f"--mail-user={self.mail}", "--mail-type=FAIL"] if self.mail else []
        return [*mail, *self._options(gpus=0)]

    def _options(self, gpus: int) -> list[str]:
        named = {
            "partition": self.partition,
            "account": self.account,
            "time": self.time_limit,
            "cpus-per-task": self.cpus,
            "gpus": gpus or None,
            "mem": self.memory,
        }
        return [f"--{name}={value}" for name, value in named.items() if value is not None]

    def check(self, study: Study) -> None:
        """Raise `InputError` where a job of this cluster lacks what the study asks for."""
        if RUNTIMES[study.runtime].hardware == "nvidia_gpu" and self.gpus < study.devices:
            raise InputError(
                f"gpus: {self.gpus} a job, and the study (runtime {study.runtime}, devices {study.devices}) trains on "
                f"{study.devices}. Ask for as many in the cluster's file, or change the study"
            )


def shared_stages(study: Study) -> list[str]:
    """Return the stages that need the machines a campaign is about: runs, what is tried once, and speeds at the end."""
    runs = [key.stage for key in study.runs()]
    speeds = [f"{SPEED_STAGE}{benchmark}" for benchmark in study.benchmarks]
    return [*runs, "numerics", *speeds]


def prepare_campaign(name: str, remote: bool) -> Path:
    """Make the clone of a campaign of this checkout, unless it is there; return the campaign's folder, absolute.

    The checkout's own origin is the campaign's origin where `remote` is set and it has one; else the checkout itself.

    Args:
        remote: machines meet at DVC's default remote, not at the cache of the checkout.

    Raises:
        InputError: git or DVC failed; nothing half-made stays.
    """
    folder = (CAMPAIGNS / name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    # Who waits is spared a second download. Where files can't be locked both prepare, and one is discarded.
    waiting = alone(folder.parent / ".lock", "A campaign of this checkout", MAX_DOWNLOAD_SECONDS)
    with waiting, tempfile.TemporaryDirectory(prefix="partial-", dir=folder) as partial:
        collector = folder / COLLECTOR
        if not collector.exists():
            _make(name, Path(partial, COLLECTOR), remote)
            if remote:
                (folder / REMOTE).touch()
            try:
                Path(partial, COLLECTOR).rename(collector)
            except OSError:
                if not collector.exists():  # else somebody was quicker, where files can't be locked
                    raise
    return folder


def load_committed_study(collector: Path) -> Study:
    """Read the campaign's study as it was committed, and put in place what its runs depend on.

    A collector that reported on some of the seeds alone, or was ended meanwhile, may have left another's.
    """
    run_command("git", "checkout", "--quiet", "HEAD", "--", str(PARAMS), folder=collector)
    study = load_study(collector / PARAMS)
    if not all((collector / "inputs" / f"{key.directory}.json").exists() for key in study.runs()):
        run_command("dvc", "repro", "--quiet", "inputs", folder=collector)
    return study


def write_stages(folder: Path, stages: list[str]) -> None:
    """Write the list that run.sh counts in; several pods write the same one."""
    write_whole(folder / STAGES_FILE, "".join(f"{stage}\n" for stage in stages))


def _make(name: str, clone: Path, remote: bool) -> None:
    run_command("git", "clone", "--quiet", str(Path.cwd()), str(clone))
    config = Path(".dvc", "config.local")
    (clone / config).touch()
    if config.exists():
        shutil.copy(config, clone / config)
    if remote:
        if "origin" in run_command("git", "remote").split():
            address = run_command("git", "remote", "get-url", "origin").strip()
            run_command("git", "remote", "set-url", "origin", address, folder=clone)
        try:
            default = run_command("dvc", "remote", "default", folder=clone).strip()
        except InputError:
            raise InputError("DVC has no default remote to meet at: dvc remote add --default NAME ADDRESS") from None
        remotes = run_command("dvc", "remote", "list", folder=clone)
        if re.search(rf"^{re.escape(default)}\s+https?:", remotes, re.MULTILINE):
            raise InputError(f"DVC shares no runs over HTTP, which the remote {default} speaks. Meet at another one")
    else:
        cache = run_command("dvc", "cache", "dir").strip()
        run_command("dvc", "cache", "dir", "--local", cache, folder=clone)
    _claim(name, clone)
    run_command("dvc", "repro", "--quiet", *(["--pull"] if remote else []), "download", "inputs", folder=clone)
    if remote:
        _push(clone, "download", "inputs")
    if run_command("git", "status", "--porcelain", folder=clone):
        commit_all(clone, f"Campaign {name}: data")


def _push(clone: Path, *stages: str) -> None:
    """Push what the stages made. Where another machine pushes the same at the same time, one of the two may fail."""
    for attempt in range(PUSH_ATTEMPTS):
        try:
            run_command("dvc", "push", "--run-cache", *stages, folder=clone)
            return
        except InputError:
            if attempt == PUSH_ATTEMPTS - 1:
                raise
            time.sleep(1 + attempt)


def _claim(name: str, clone: Path) -> None:
    """Push the campaign's branch, or take the one that is there: all machines run one commit."""
    branch = f"campaign/{name}"
    if _take(branch, clone):
        return
    run_command("git", "switch", "--quiet", "--create", branch, folder=clone)
    _gather_ledgers(clone)
    values = yaml_files.load(clone / PARAMS)
    seeds = campaign_seeds(name, len(values["seeds"]), read_ledger(clone / LEDGER))
    text = yaml_files.dump(values | {"campaign": name, "seeds": seeds})
    (clone / PARAMS).write_text(text, encoding="utf-8")
    commit_all(clone, f"Campaign {name}: seeds {seeds}")
    try:
        run_command("git", "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}", folder=clone)
    except InputError:
        if not _take(branch, clone):  # else somebody was quicker
            raise


def _take(branch: str, clone: Path) -> bool:
    """Switch to the branch of the origin, and return whether it has one."""
    if not run_command("git", "ls-remote", "origin", f"refs/heads/{branch}", folder=clone):
        return False
    run_command("git", "fetch", "--quiet", "origin", f"refs/heads/{branch}", folder=clone)
    run_command("git", "switch", "--quiet", "--force-create", branch, "FETCH_HEAD", folder=clone)
    return True


def campaign_seeds(name: str, num_seeds: int, ledger: Iterable[CampaignEntry]) -> list[int]:
    """Return the seeds of a campaign, consecutive numbers from a hash of its name: known to all machines alike.

    Where another campaign of the ledger has one of them, the name is hashed again.
    """
    taken = {seed for entry in ledger if entry.campaign != name for seed in entry.seeds}
    for attempt in itertools.count():
        digest = hashlib.sha256(f"{name}/{attempt}".encode()).digest()
        first = int.from_bytes(digest[:4], "big") % (MAX_SEED - num_seeds)
        if taken.isdisjoint(seeds := list(range(first, first + num_seeds))):
            break
    return seeds


def _gather_ledgers(clone: Path) -> None:
    """Add the ledgers of campaigns whose branches nobody has merged yet; not what is pinned there, by no review."""
    branches = "refs/remotes/origin/campaign/"
    run_command("git", "fetch", "--quiet", "origin", f"+refs/heads/campaign/*:{branches}*", folder=clone)
    listed = run_command("git", "for-each-ref", "--format=%(refname)", branches, folder=clone)
    for branch in listed.split():
        for path in run_command("git", "ls-tree", "--name-only", branch, f"{LEDGER}/", folder=clone).split():
            if Path(path).name != BASELINE and not (clone / path).exists():
                run_command("git", "checkout", "--quiet", branch, "--", path, folder=clone)


def commit_all(clone: Path, message: str) -> None:
    """Commit what is in the clone, even where nothing has changed."""
    run_command("git", "add", "--all", folder=clone)
    run_command("git", "commit", "--quiet", "--allow-empty", "--message", message, folder=clone)


def run_command(*command: str, folder: Path = Path()) -> str:
    """Return what a command prints. Raises `InputError` with its own words where it fails."""
    environment = os.environ | {"PYTHONPATH": str(folder.absolute())}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout
