"""Repeat the study on a Slurm cluster: a job for each run, and one that collects them.

Give the same name again to submit what is missing. With --prepare, only make the campaign ready; several machines may
do so at once.
"""

import argparse
import datetime
import shutil
from pathlib import Path

from pipeline.campaign.cluster import Cluster, shared_stages
from pipeline.campaign.fan_out import (
    CAMPAIGNS,
    COLLECTOR,
    STAGES_FILE,
    load_committed_study,
    prepare_campaign,
    run_command,
    write_stages,
)
from pipeline.campaign.ledger import LEDGER
from pipeline.campaign.run_cache import missing_stages
from pipeline.errors import InputError
from pipeline.study.configuration import read, validate
from pipeline.study.schema import Study, load_study
from stages import run

CLUSTER = Path("cluster/slurm/cluster.yaml")


def main(arguments: argparse.Namespace) -> None:
    cluster = read(Cluster, arguments.cluster)
    study = load_study()  # a faulty study submits nothing
    validate(Study, study.model_dump(mode="json") | {"campaign": arguments.campaign}, "the study with this --campaign")
    remote = (arguments.meeting_place or cluster.meeting_place) == "remote"
    if arguments.prepare:
        _prepare_only(arguments.campaign, remote)
        return
    cluster.check(study)
    if shutil.which("sbatch") is None:
        raise InputError("sbatch is not on the path: submit from a machine of the Slurm cluster")
    if queued := run_command("squeue", "--me", "--noheader", "--format=%A", f"--name={arguments.campaign}").split():
        raise InputError(
            f"campaign {arguments.campaign} has jobs in the queue: {', '.join(sorted(set(queued)))}. Wait for them"
        )
    folder = _prepare(arguments.campaign, remote)
    if arguments.cluster.absolute() != folder / "cluster.yaml":
        shutil.copy(arguments.cluster, folder / "cluster.yaml")
    stages = shared_stages(load_committed_study(folder / COLLECTOR))
    missing = missing_stages(stages, folder / COLLECTOR, remote)
    if not missing and (folder / COLLECTOR / LEDGER / f"{arguments.campaign}.json").exists():
        print(f"campaign {arguments.campaign} is complete: {folder / 'status.json'}")
        return
    write_stages(folder, missing)
    jobs: list[str] = []
    for options in cluster.arrays(missing):
        restart = ["--requeue", f"--signal=B:USR1@{cluster.warning_seconds}"]
        jobs.append(_submit(folder, "run.sh", *_after(jobs), *restart, *options))
    if jobs:
        numbers = " and after it ".join(f"job {job}" for job in jobs)
        print(f"{len(missing)} of {len(stages)} stages are missing: {numbers}")
    mail = [f"--mail-user={cluster.mail}", "--mail-type=FAIL"] if cluster.mail else []
    collect = _submit(folder, "collect.sh", *_after(jobs), *mail, *cluster.model_copy(update={"gpus": 0}).options())
    print(f"job {collect} collects them: {folder / 'status.json'}")


def _prepare_only(name: str, remote: bool) -> None:
    """Prepare the campaign for jobs that somebody else starts, one a stage.

    A stage that is not missing ends at once.
    """
    folder = _prepare(name, remote)
    stages = shared_stages(load_committed_study(folder / COLLECTOR))
    write_stages(folder, stages)
    if remote:  # to ask would fetch every run
        print(f"{len(stages)} stages: {folder / STAGES_FILE}")
    else:
        missing = missing_stages(stages, folder / COLLECTOR, remote)
        print(f"{len(missing)} of {len(stages)} stages are missing: {folder / STAGES_FILE}")


def _prepare(name: str, remote: bool) -> Path:
    if not (CAMPAIGNS / name / COLLECTOR).exists() and (dirty := run_command("git", "status", "--porcelain")):
        raise InputError(f"the tree differs from its last commit ({dirty.splitlines()[0].strip()} …): commit first")
    return prepare_campaign(name, Path(), remote)


def _after(jobs: list[str]) -> list[str]:
    return [f"--dependency=afterany:{':'.join(jobs)}"] if jobs else []


def _submit(folder: Path, script: str, *options: str) -> str:
    """Hand a script to Slurm; return the job's number."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    name = "%A_%a" if script == "run.sh" else "%j"
    fixed = ["--parsable", f"--job-name={folder.name}", f"--output={logs}/{name}.log", "--open-mode=append"]
    command = [str(Path("cluster", "slurm", script).absolute()), str(folder)]
    return run_command("sbatch", *fixed, *options, *command).strip().partition(";")[0]


if __name__ == "__main__":
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parser = argparse.ArgumentParser(prog="python -m stages.campaign", description=__doc__)
    parser.add_argument("--campaign", default=today, help="its name; without one, today's date")
    parser.add_argument(
        "--cluster", type=Path, default=CLUSTER, help=f"its file: the options of a job (default {CLUSTER})"
    )
    parser.add_argument("--prepare", action="store_true", help="submit nothing, and print how much is missing")
    parser.add_argument("--meeting-place", choices=["shared_cache", "remote"], help="in place of the cluster's")
    run(main, parser)
