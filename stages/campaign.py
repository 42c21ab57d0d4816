"""Repeat the study on a Slurm cluster: make a campaign's folder, submit a job per run and one to collect results.

Give the same name again to submit what is missing.
"""

import argparse
import datetime
import os
import shutil
import sys
from pathlib import Path

from pipeline.campaign.jobs import CLUSTER, Cluster
from pipeline.campaign.preparing import CAMPAIGNS, prepare_campaign
from pipeline.errors import InputError
from pipeline.machine.environment import installed_engine
from pipeline.study.configuration import read
from pipeline.study.engines import ENGINES
from stages import run

TEMPLATE = Path("deploy/slurm/cluster.yaml")


def main(arguments: argparse.Namespace) -> None:
    if arguments.prepare:
        print(prepare_campaign(arguments.campaign, arguments.campaigns))
        return
    # Before anything is made, report what would stop a job.
    read(Cluster, arguments.cluster).check(ENGINES[installed_engine()].hardware)
    if shutil.which("sbatch") is None:
        raise InputError("sbatch is not on the path: submit from a machine of the Slurm cluster")
    folder = prepare_campaign(arguments.campaign, arguments.campaigns)
    if arguments.cluster.resolve() != folder / CLUSTER:
        shutil.copyfile(arguments.cluster, folder / CLUSTER)
    # Go on with the campaign's own copy of the code.
    os.chdir(folder)
    command = [sys.executable, "-m", "stages.submit"]
    os.execve(sys.executable, command, os.environ | {"PYTHONPATH": str(folder)})  # noqa: S606


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
