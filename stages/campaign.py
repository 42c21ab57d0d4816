"""Repeat the study on a Slurm cluster: make a campaign's folder, and submit the campaign's jobs.

There is a job for each run, for the numerics and for each speed measurement. The last job collects the results. Give
the same name again to submit the jobs whose results are missing.
"""

import argparse
import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.campaign.jobs import CLUSTER, Cluster, elements, missing_elements, split
from pipeline.campaign.preparing import CAMPAIGNS, LEDGER, prepare_campaign
from pipeline.errors import InputError
from pipeline.files.places import STATUS
from pipeline.machine.environment import installed_engine
from pipeline.study.configuration import read
from pipeline.study.engines import ENGINES
from pipeline.study.schema import load_study
from stages import run

TEMPLATE = Path("deploy/slurm/cluster.yaml")
PYTHON = (sys.executable, "-m")


def main(arguments: argparse.Namespace) -> None:
    if arguments.prepare:
        print(prepare_campaign(arguments.campaign, arguments.campaigns))
        return
    # Before the folder is made, report a fault that would stop every job.
    read(Cluster, arguments.cluster).check(ENGINES[installed_engine()].hardware)
    if shutil.which("sbatch") is None:
        raise InputError("sbatch is not on the path: submit from a machine of the Slurm cluster")
    folder = prepare_campaign(arguments.campaign, arguments.campaigns)
    if arguments.cluster.resolve() != folder / CLUSTER:
        shutil.copyfile(arguments.cluster, folder / CLUSTER)
    os.chdir(folder)  # the folder has the code that the jobs run
    submit()


def submit() -> None:
    """Submit jobs for the missing elements of the campaign in this folder, and a job that collects the results.

    If no element is missing and the campaign is in the ledger, submit nothing.

    Raises:
        InputError: jobs of this campaign are in the queue, a Slurm command failed, or the study or cluster.yaml is
            faulty.
    """
    study, cluster = load_study(), read(Cluster, CLUSTER)
    name, status = study.campaign, STATUS.absolute()
    named = _slurm("squeue", "--noheader", "--format=%U %A", f"--name={name}").splitlines()
    # Select jobs by user id, because squeue can't look up a user who has no name.
    if queued := {job for user, job in map(str.split, named) if user == str(os.getuid())}:
        raise InputError(f"campaign {name} has jobs in the queue: {', '.join(sorted(queued))}. Wait for their end")
    every, missing = elements(study), missing_elements(study)
    if not missing and Path("..", LEDGER, f"{name}.json").exists():
        print(f"campaign {name} is complete: {status}")
        return
    others, speeds = split(missing, every)
    jobs: list[str] = []
    if others:
        jobs.append(_submit(name, jobs, cluster.run_options(others), [*PYTHON, "stages.element"]))
    if speeds:
        # Without srun, a job that has a node to itself would get all of the node's CPUs.
        step = ["srun", "--ntasks=1", "--exact", f"--cpus-per-task={cluster.cpus}"]
        jobs.append(_submit(name, jobs, cluster.speed_options(speeds), [*step, *PYTHON, "stages.element"]))
    said = f"; {', then '.join(f'job {job}' for job in jobs)} will make them" if jobs else ""
    print(f"{len(missing)} of {len(every) - 1} elements are missing{said}", flush=True)
    collector = _submit(name, jobs, cluster.collector_options(), [*PYTHON, "stages.collect"])
    print(f"job {collector} collects them: {status}")


def _submit(name: str, after: Sequence[str], options: Sequence[str], command: Sequence[str]) -> str:
    """Submit a command to Slurm, to run after the jobs in `after` have ended; return the job's number."""
    Path("logs").mkdir(exist_ok=True)
    log = "logs/%A_%a.log" if any(option.startswith("--array") for option in options) else "logs/%j.log"
    fixed = ["--parsable", f"--job-name={name}", f"--output={log}", "--open-mode=append"]
    fixed += [f"--dependency=afterany:{':'.join(after)}"] if after else []
    try:
        return _slurm("sbatch", *fixed, *options, "deploy/slurm/job.sh", *command).strip().partition(";")[0]
    except InputError as error:
        already = f" Submitted already: {', '.join(after)}; scancel {' '.join(after)} takes it back." if after else ""
        raise InputError(f"{error}.{already}") from None


def _slurm(*command: str) -> str:
    """Return the output of a Slurm command. If the command fails, raise `InputError` with the command's own message."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


if __name__ == "__main__":
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parser = argparse.ArgumentParser(prog="python -m stages.campaign", description=__doc__)
    parser.add_argument("--campaign", default=today, help="the name; by default, today's date")
    parser.add_argument(
        "--cluster", type=Path, default=TEMPLATE, help=f"the file with the options of a job (default {TEMPLATE})"
    )
    parser.add_argument(
        "--campaigns", type=Path, default=CAMPAIGNS, help=f"the folder of all campaigns (default {CAMPAIGNS})"
    )
    parser.add_argument("--prepare", action="store_true", help="make the campaign's folder, and submit nothing")
    run(main, parser)
