"""Campaigns on a real Slurm of two nodes: a requeue, a cancelled run, drift and its confirmation."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cluster.campaigns import CLUSTER, STUDY, campaign, finish, output, wait_for
from projects import git

from cluster import campaigns
from pipeline.campaign.fan_out import campaign_seeds
from pipeline.numbers import ranges

SEEDS = campaign_seeds("c1", 4, [])
THREE = ranges(SEEDS[:3])
DVC = (sys.executable, "-m", "dvc")  # there need not be one on the path

project = campaigns.project


@pytest.mark.usefixtures("slurm")
def test_a_campaign_survives_a_requeue_a_warning_and_a_lost_run(project):
    """Of eight runs one is killed in its middle and requeued, one is warned that its time is running out, and one is
    cancelled. Then what is missing is submitted.
    """
    folder = project / ".campaigns" / "c1"
    done = campaign(project, "c1")
    assert "10 of 10 stages are missing" in done.stdout, done.stderr
    job, speeds, collector = re.findall(r"job (\d+)", done.stdout)
    assert asked(job, "Dependency", "OverSubscribe") == ["(null)", "OK"]
    assert asked(speeds, "Dependency", "OverSubscribe") == [f"afterany:{job}_*(unfulfilled)", "NO"]  # a node of its own
    assert asked(collector, "Dependency") == [f"afterany:{job}_*(unfulfilled),afterany:{speeds}_*(unfulfilled)"]
    output("scancel", f"{job}_7")
    wait_for(lambda: in_its_middle(project, "float32"), 300)
    output("scontrol", "requeue", f"{job}_0")
    wait_for(lambda: in_its_middle(project, "mixed"), 300)
    # As Slurm does before the time limit. It tries again until the job is no longer queued again, and then fails.
    warning = subprocess.Popen(["scancel", "--signal=USR1", "--batch", f"{job}_1"], stderr=subprocess.DEVNULL)
    wait_for(lambda: "interrupted:" in (folder / "logs" / f"{job}_1.log").read_text(), 60)
    warning.terminate()
    warning.wait()
    status = finish(project, "c1")
    assert status["exit_code"] == 30
    assert status["reasons"] == [
        f"1 stages did not finish: train@{SEEDS[3]}-small_dense-mixed. Submit them: make campaign CAMPAIGN=c1. "
        f"The report is on seeds {THREE} alone"
    ]
    assert f"Seeds {THREE}." in (folder / "report.html").read_text()
    assert (
        f"interrupted: runs/small_dense/mixed/seed-{SEEDS[0]} has epoch"
        in (folder / "logs" / f"{job}_1.log").read_text()
    )
    assert not output("git", "-C", str(project), "ls-tree", "campaign/c1", "history")  # the branch is there, with seeds

    assert "1 of 10 stages are missing" in campaign(project, "c1").stdout
    status = finish(project, "c1")
    assert status["exit_code"] == 30
    assert "has no baseline" in status["reasons"][0]
    assert status["runs"] == {"completed": 8}
    assert (folder / "report.html").stat().st_size > 10_000
    records = [json.loads(path.read_text()) for path in (folder / "collector" / "runs").rglob("record.json")]
    assert {record["variant"] for record in records if record["resumed"]} == {"float32", "mixed"}
    assert {record["seed"] for record in records if record["resumed"]} == {SEEDS[0]}
    assert not list((folder / "checkpoints").rglob("*.npz"))
    ledger = output("git", "-C", str(project), "show", "campaign/c1:history/c1.json")
    assert len(json.loads(ledger)["runs"]) == 8
    assert output("git", "-C", str(project), "status", "--porcelain") == ""
    assert "campaign c1 is complete" in campaign(project, "c1").stdout
    assert output("squeue", "--noheader") == ""


def asked(job: str, *names: str) -> list[str]:
    """What Slurm says of a job, or of the first element of an array."""
    said = dict(word.split("=", 1) for word in output("scontrol", "show", "job", job).split() if "=" in word)
    return [said[name] for name in names]


def in_its_middle(project: Path, variant: str) -> bool:
    """Whether the run of the first seed has kept an epoch, and not its last."""
    kept = (project / ".campaigns" / "c1" / "checkpoints").glob(f"small_dense-{variant}-{SEEDS[0]}/*.npz")
    return any(".partial" not in path.name for path in kept)


@pytest.mark.usefixtures("slurm")
def test_drift_is_confirmed_by_a_second_campaign_on_fresh_seeds(project):
    """The pinned campaign is made to have been 60 points better than it was: the world seems to have got worse."""
    git(project, "merge", "--quiet", "campaign/c1")
    path = project / "history" / "c1.json"
    entry = json.loads(path.read_text())
    for run in entry["runs"]:
        run["test_accuracy"] = min(1.0, run["test_accuracy"] + 0.6) + 0.001 * (run["seed"] - SEEDS[0])
    path.write_text(json.dumps(entry, indent=2) + "\n")
    environment = os.environ | {"PYTHONPATH": str(project)}
    subprocess.run([sys.executable, "-m", "stages.pin", "--campaign", "c1"], cwd=project, env=environment, check=True)
    git(project, "add", "-A")
    git(project, "commit", "--quiet", "-m", "The baseline is c1")

    assert campaign(project, "c2").returncode == 0
    finish(project, "c2")
    first = json.loads((project / ".campaigns" / "c2" / "status.json").read_text())
    assert first["exit_code"] == 10
    assert any("for the first time" in finding for finding in first["findings"])
    wait_for((project / ".campaigns" / "c2-again" / "status.json").exists, 900)
    again = finish(project, "c2-again")
    assert again["exit_code"] == 20
    assert any("for the second time, on other seeds" in finding for finding in again["findings"])
    seeds = [
        {
            run["seed"]
            for run in json.loads(output("git", "-C", str(project), "show", f"campaign/{name}:history/{name}.json"))[
                "runs"
            ]
        }
        for name in ("c2", "c2-again")
    ]
    assert seeds == [set(campaign_seeds(name, 4, [])) for name in ("c2", "c2-again")]
    assert len(seeds[0] | seeds[1] | set(SEEDS)) == 12


@pytest.fixture
def far_project(project, tmp_path) -> Path:
    """A clone of the first commit, with two seeds; its origin is a bare repository, its DVC remote a folder."""
    origin, clone = tmp_path / "origin.git", tmp_path / "project"
    first = output("git", "-C", str(project), "rev-list", "--max-parents=0", "main")
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    git(project, "push", "--quiet", str(origin), f"{first}:refs/heads/main")
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    (clone / "params.yaml").write_text(yaml.safe_dump(STUDY | {"seeds": [0, 1]}))
    output(*DVC, "--cd", str(clone), "remote", "add", "--quiet", "--default", "meeting", str(tmp_path / "remote"))
    git(clone, "commit", "--quiet", "--all", "-m", "two seeds, and where machines meet")
    (tmp_path / "tfds").symlink_to(project.parent / "tfds")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(CLUSTER | {"meeting_place": "remote"}))
    return clone


@pytest.mark.usefixtures("slurm")
def test_a_remote_that_cannot_be_reached_submits_nothing(far_project):
    output(*DVC, "--cd", str(far_project), "remote", "modify", "meeting", "url", "/proc/nowhere")
    git(far_project, "commit", "--quiet", "--all", "-m", "elsewhere")
    refused = campaign(far_project, "r1")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert "dvc push" in refused.stderr
    assert output("squeue", "--noheader") == ""


@pytest.mark.usefixtures("slurm")
def test_a_campaign_whose_jobs_are_queued_is_not_submitted_again(project):
    output("sbatch", "--hold", "--job-name=held", "--wrap", "true")
    try:
        refused = campaign(project, "held")
        assert refused.returncode == 2
        assert "campaign held has jobs in the queue: " in refused.stderr
        assert not (project / ".campaigns" / "held").exists()
    finally:
        output("scancel", "--name=held")


@pytest.mark.usefixtures("slurm")
def test_machines_meet_at_a_dvc_remote(far_project, tmp_path):
    """Four runs in clones that share no cache; data and runs travel through the remote, the branch to the origin."""
    done = campaign(far_project, "r1")
    assert "6 of 6 stages are missing" in done.stdout, done.stderr
    status = finish(far_project, "r1")
    assert status["runs"] == {"completed": 4}
    assert status["exit_code"] == 30
    assert "has no baseline" in status["reasons"][0]
    assert (
        len(
            json.loads(output("git", "-C", str(tmp_path / "origin.git"), "show", "campaign/r1:history/r1.json"))["runs"]
        )
        == 4
    )
    assert not output("git", "-C", str(far_project), "branch", "--list", "campaign/*")
    assert not (far_project / ".dvc" / "cache" / "runs").exists()  # what the runs left is at the remote only
    assert list((tmp_path / "remote" / "runs").rglob("*"))
    assert "campaign r1 is complete" in campaign(far_project, "r1").stdout

    reader = tmp_path / "reader"  # somebody elsewhere, who may read the origin and the remote
    git(tmp_path, "clone", "--quiet", "--branch=campaign/r1", str(tmp_path / "origin.git"), str(reader))
    output(*DVC, "--cd", str(reader), "pull", "--quiet", "results/report.html")
    report = (far_project / ".campaigns" / "r1" / "report.html").read_bytes()
    assert (reader / "results" / "report.html").read_bytes() == report
