"""Compare, judge, report and look for drift, once a campaign's jobs have ended. Trains nothing.

The exit status is that of `stages.drift`; on Slurm, a warning submits the campaign once more, on fresh seeds.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.campaign.alarm import TOO_LITTLE, WARNING
from pipeline.campaign.fan_out import REMOTE, commit_all, load_committed_study, run_command, shared_stages
from pipeline.campaign.run_cache import missing_stages
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.numbers import ranges
from pipeline.report.status import STATUS, write_status
from pipeline.study.schema import PARAMS, Study
from stages import run

# Of what is in place by then. All stages would be looked at else, which takes longer than these do.
REPORT = ("dvc", "repro", "--quiet", "--single-item", "compare", "judge", "report")
REPEAT_SUFFIX = "-again"
POLL_SECONDS = 120


def main(arguments: argparse.Namespace) -> None:
    status = arguments.folder / "status.json"
    for last in (status, STATUS):  # nobody should take it for this one
        last.unlink(missing_ok=True)
    try:
        exit_code = _collect(load_committed_study(Path()), arguments.folder, arguments.wait)
    except Exception as error:
        exit_code = 2 if isinstance(error, InputError) else 1
        write_status({"exit_code": exit_code, "reasons": [f"the collector failed: {error}"]})
        raise
    finally:
        if STATUS.exists():
            shutil.copy(STATUS, status)
    sys.exit(exit_code)


def _collect(study: Study, folder: Path, wait_seconds: float) -> int:
    submitted = folder / "cluster.yaml"  # by Slurm; who starts jobs elsewhere does it again, too
    missing = _still_missing(study, folder, wait_seconds)
    if missing:
        again = f"Submit them: make campaign CAMPAIGN={study.campaign}"
        if not submitted.exists():
            again = f"Start them again, as jobs campaign-run-{study.campaign} and campaign-collect-{study.campaign}"
        reason = f"{len(missing)} stages did not finish: {', '.join(missing)}. {again}"
        if whole := _report_whole_seeds(study, missing, folder):
            reason += f". The report is on seeds {ranges(whole)} alone"
        write_status({"exit_code": TOO_LITTLE, "reasons": [reason]})
        return TOO_LITTLE
    run_command(*REPORT)
    if (folder / REMOTE).exists():
        run_command("dvc", "push", "--quiet")  # results, of whoever reads the branch
    exit_code = subprocess.run([sys.executable, "-m", "stages.drift"], check=False).returncode
    shutil.copy("results/report.html", folder / "report.html")
    headline = json.loads(STATUS.read_text(encoding="utf-8"))["exit_code"]
    commit_all(Path(), f"Campaign {study.campaign}: exit status {headline}")  # empty where it was collected before
    run_command("git", "push", "--quiet", "origin", f"HEAD:refs/heads/campaign/{study.campaign}")
    if exit_code == WARNING and submitted.exists() and not study.campaign.endswith(REPEAT_SUFFIX):
        repeat = ["--campaign", study.campaign + REPEAT_SUFFIX, "--cluster", str(submitted)]
        print(run_command(sys.executable, "-m", "stages.campaign", *repeat, folder=folder.parent.parent), end="")
    return exit_code


def _report_whole_seeds(study: Study, missing: Sequence[str], folder: Path) -> list[int]:
    """Report on the seeds whose runs are all there, and enter nothing. Return those seeds."""
    broken = {key.seed for key in study.runs() if key.stage in missing}
    whole = [seed for seed in study.seeds if seed not in broken]
    # What is run at some of the seeds alone must have been run at those of what is left.
    others = set(study.model_copy(update={"seeds": whole}).runs()) - set(study.runs())
    if not whole or others or any(not stage.startswith("train@") for stage in missing):
        return []
    text = PARAMS.read_text(encoding="utf-8")
    try:
        PARAMS.write_text(yaml_files.dump(yaml_files.load(PARAMS) | {"seeds": whole}), encoding="utf-8")
        done = subprocess.run(REPORT, check=False)  # what is missing is said, whatever comes of this
    finally:
        PARAMS.write_text(text, encoding="utf-8")
    if done.returncode:
        return []
    shutil.copy("results/report.html", folder / "report.html")
    return whole


def _still_missing(study: Study, folder: Path, wait_seconds: float) -> list[str]:
    """Return the stages that no machine has finished, once none is left or the time is over."""
    deadline = time.monotonic() + wait_seconds
    while True:
        missing = missing_stages(shared_stages(study), Path(), (folder / REMOTE).exists(), restore=True)
        left_seconds = deadline - time.monotonic()
        if not missing or left_seconds <= 0:
            return missing
        print(f"{len(missing)} stages are missing; {left_seconds / 60:.0f} minutes left", flush=True)
        time.sleep(min(POLL_SECONDS, left_seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.collect", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the campaign's")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS", help="for what is missing, at most")
    run(main, parser)
