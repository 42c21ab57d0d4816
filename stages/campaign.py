"""Repeat the study on a Slurm cluster: a job for each run, and one that collects them.

Give the same name again to submit what is missing. With --prepare, only make the campaign ready; several machines may
do so at once.
"""

import argparse
import datetime
import shutil
from collections.abc import Sequence
from pathlib import Path

from pipeline.campaign.fan_out import (
    CAMPAIGNS,
    COLLECTOR,
    STAGES_FILE,
    Cluster,
    load_committed_study,
    prepare_campaign,
    run_command,
    shared_stages,
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
    name, cluster = arguments.campaign, read(Cluster, arguments.cluster)
    study = load_study()  # a faulty study submits nothing
    validate(Study, study.model_dump(mode="json") | {"campaign": name}, "the study with this --campaign")
    remote = (arguments.meeting_place or cluster.meeting_place) == "remote"
    if not arguments.prepare:
        cluster.check(study)
        _check_queue(name)
    if not (CAMPAIGNS / name / COLLECTOR).exists() and (dirty := run_command("git", "status", "--porcelain")):
        raise InputError(f"the tree differs from its last commit ({dirty.splitlines()[0].strip()} …): commit first")
    folder = prepare_campaign(name, remote)
    stages = shared_stages(load_committed_study(folder / COLLECTOR))
    # To ask at a remote would fetch every run: jobs that somebody else starts, one a stage, find out by themselves.
    missing = None if arguments.prepare and remote else missing_stages(stages, folder / COLLECTOR, remote)
    said = f"{len(stages)} stages" if missing is None else f"{len(missing)} of {len(stages)} stages are missing"
    if missing is None or arguments.prepare:
        write_stages(folder, stages)
        print(f"{said}: {folder / STAGES_FILE}")
    elif not missing and (folder / COLLECTOR / LEDGER / f"{name}.json").exists():
        print(f"campaign {name} is complete: {folder / 'status.json'}")
    else:
        if arguments.cluster.resolve() != (folder / "cluster.yaml").resolve():
            shutil.copy(arguments.cluster, folder / "cluster.yaml")
        write_stages(folder, missing)
        jobs: list[str] = []
        for options in cluster.arrays(missing):
            jobs.append(_submit(folder, "run.sh", jobs, options))
        if jobs:
            print(f"{said}: {' and after it '.join(f'job {job}' for job in jobs)}")
        collect = _submit(folder, "collect.sh", jobs, cluster.collector())
        print(f"job {collect} collects them: {folder / 'status.json'}")


def _check_queue(name: str) -> None:
    """Refuse to submit where there is no Slurm, or where it has jobs of this campaign."""
    if shutil.which("sbatch") is None:
        raise InputError("sbatch is not on the path: submit from a machine of the Slurm cluster")
    if queued := run_command("squeue", "--me", "--noheader", "--format=%A", f"--name={name}").split():
        raise InputError(f"campaign {name} has jobs in the queue: {', '.join(sorted(set(queued)))}. Wait for them")


def _submit(folder: Path, script: str, after: Sequence[str], options: Sequence[str]) -> str:
    """Hand a script to Slurm, to be run after some jobs have ended; return the job's number."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / ("%A_%a.log" if script == "run.sh" else "%j.log")
    fixed = ["--parsable", f"--job-name={folder.name}", f"--output={log}", "--open-mode=append"]
    fixed += [f"--dependency=afterany:{':'.join(after)}"] if after else []
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
