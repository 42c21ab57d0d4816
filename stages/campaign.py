"""Repeat the study on a Slurm cluster: a job for each run, and one that collects them. The same name again submits what
is missing.
"""

import argparse
import datetime
import os
import shutil
import subprocess
from pathlib import Path

import yaml

from pipeline.cluster import Site, missing_stages, shared_stages
from pipeline.configuration import read
from pipeline.errors import InputError
from pipeline.history import read_ledger
from pipeline.study import PARAMS, load_study
from stages import run

SITE = Path("cluster/slurm/site.yaml")
CAMPAIGNS = Path(".campaigns")


def main(arguments: argparse.Namespace) -> None:
    site = read(Site, arguments.site)
    load_study()  # a faulty study submits nothing
    if shutil.which("sbatch") is None:
        raise InputError("sbatch is not on the path: submit from a machine of the Slurm cluster")
    folder = (CAMPAIGNS / arguments.campaign).absolute()
    collector = folder / "collector"
    if not collector.exists():
        if dirty := _git("status", "--porcelain"):
            raise InputError(f"the tree differs from its last commit ({dirty.splitlines()[0].strip()} …): commit first")
        _prepare(arguments.campaign, collector, site)
    if arguments.site != folder / "site.yaml":
        shutil.copy(arguments.site, folder / "site.yaml")
    study = load_study(collector / PARAMS)
    missing = missing_stages(shared_stages(study), collector, site.meeting_place == "remote")
    if not missing and (collector / "history" / f"{arguments.campaign}.json").exists():
        print(f"campaign {arguments.campaign} is complete: {folder / 'status.json'}")
        return
    (folder / "stages.txt").write_text("".join(f"{stage}\n" for stage in missing), encoding="utf-8")
    dependency = []
    if missing:
        array = _submit(
            folder,
            "run.sh",
            f"--array=0-{len(missing) - 1}%{site.max_jobs}",
            "--requeue",
            f"--signal=B:USR1@{site.warning_seconds}",
            *site.options(),
        )
        dependency = [f"--dependency=afterany:{array}"]
        print(f"{len(missing)} of {len(shared_stages(study))} stages are missing: job {array}")
    collect = _submit(folder, "collect.sh", *dependency, *site.model_copy(update={"gpus": 0}).options())
    print(f"job {collect} collects them: {folder / 'status.json'}")


def _prepare(name: str, collector: Path, site: Site) -> None:
    """A clone on a branch of its own, with the campaign's name, fresh seeds, every ledger there is, and the data."""
    partial = collector.with_name("partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    _run("git", "clone", "--quiet", ".", str(partial))
    _run("git", "switch", "--quiet", "--create", f"campaign/{name}", folder=partial)
    if Path(".dvc/config.local").exists():
        shutil.copy(".dvc/config.local", partial / ".dvc")
    if site.meeting_place == "shared_cache":
        cache = _run("dvc", "cache", "dir").strip() or ".dvc/cache"
        _run("dvc", "cache", "dir", "--local", str(Path(cache).absolute()), folder=partial)
    else:
        (collector.parent / "remote").touch()
        _run("dvc", "push", "--quiet", "--run-cache", "--allow-missing")  # fails here, where there is no such remote
    # Ledgers have a file for each campaign, on the branches of campaigns that nobody has merged yet too.
    for branch in _git("branch", "--list", "campaign/*", "--format=%(refname:short)").split():
        if _git("ls-tree", branch, "history"):
            _run("git", "fetch", "--quiet", "origin", branch, folder=partial)
            for path in _run("git", "ls-tree", "--name-only", "FETCH_HEAD", "history/", folder=partial).split():
                if not (partial / path).exists():
                    _run("git", "checkout", "--quiet", "FETCH_HEAD", "--", path, folder=partial)
    values = yaml.safe_load((partial / PARAMS).read_text(encoding="utf-8"))
    used = {seed for entry in read_ledger(partial / "history") for seed in entry.seeds}
    first = max(used) + 1 if used else None
    seeds = values["seeds"] if first is None else list(range(first, first + len(values["seeds"])))
    text = yaml.safe_dump(values | {"campaign": name, "seeds": seeds}, sort_keys=False)
    (partial / PARAMS).write_text(text, encoding="utf-8")
    _run("dvc", "repro", "--quiet", "download", "inputs", folder=partial)
    if site.meeting_place == "remote":
        _run("dvc", "push", "--quiet", "download", "inputs", folder=partial)
    _run("git", "add", "--all", folder=partial)
    _run("git", "commit", "--quiet", "--message", f"Campaign {name}: seeds {seeds}", folder=partial)
    partial.replace(collector)


def _submit(folder: Path, script: str, *options: str) -> str:
    """Hands a script to Slurm; returns the job's number."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    name = "%A_%a" if script == "run.sh" else "%j"
    fixed = ["--parsable", f"--job-name={folder.name}", f"--output={logs}/{name}.log", "--open-mode=append"]
    command = [str(Path("cluster", "slurm", script).absolute()), str(folder)]
    return _run("sbatch", *fixed, *options, *command).strip().partition(";")[0]


def _git(*arguments: str) -> str:
    return _run("git", *arguments)


def _run(*command: str, folder: Path = Path()) -> str:
    """What a command prints. Raises `InputError` with its own words where it fails."""
    environment = os.environ | {"PYTHONPATH": str(folder.absolute())}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


if __name__ == "__main__":
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parser = argparse.ArgumentParser(prog="python -m stages.campaign", description=__doc__)
    parser.add_argument("--campaign", default=today, help="its name; without one, today's date")
    parser.add_argument("--site", type=Path, default=SITE, help=f"what the cluster wants of a job (default {SITE})")
    run(main, parser)
