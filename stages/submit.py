"""Submit the missing elements of the campaign in this folder to Slurm, and a job that collects them."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.campaign.jobs import CLUSTER, Cluster, elements, missing_elements, split
from pipeline.campaign.preparing import LEDGER
from pipeline.errors import InputError
from pipeline.files.places import STATUS
from pipeline.study.configuration import read
from pipeline.study.schema import load_study
from stages import run

PYTHON = (sys.executable, "-m")


def main(_: argparse.Namespace) -> None:
    study, cluster = load_study(), read(Cluster, CLUSTER)
    name, status = study.campaign, STATUS.absolute()
    named = _slurm("squeue", "--noheader", "--format=%U %A", f"--name={name}").splitlines()
    # By user id, because squeue can't look up a user who has no name.
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
        # Otherwise a job with a node to itself would get all of the node's CPUs.
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
    """Return the output of a Slurm command. Raise `InputError` with the command's own message if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.submit", description=__doc__))
