"""Campaigns on a real Slurm of two nodes: a requeue, a cancelled run, drift and its confirmation."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.campaigns import STUDY, campaign, finish, make_project, output
from endings import wait_for

from pipeline.campaign.preparing import campaign_seeds
from pipeline.store.identity import of_runs
from pipeline.store.kept import name_of
from pipeline.study.schema import RunKey, load_study

SEEDS = campaign_seeds("c1", 4)
pytestmark = pytest.mark.usefixtures("slurm")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project in a folder with a difficult name, of a user whose files nobody else may read, in the C locale."""
    before = os.umask(0o077)
    patch = pytest.MonkeyPatch()
    patch.setenv("LC_ALL", "C")
    folder = tmp_path_factory.mktemp("campaigns") / "Año 'one' #1 \"two\"" / "project"
    make_project(folder, STUDY)
    yield folder
    patch.undo()
    os.umask(before)


def test_a_campaign_survives_a_requeue_a_warning_and_a_lost_run(project):
    """One of eight runs is killed midway and requeued, one is warned that its time is running out, and one is
    cancelled. Then the missing one is submitted.
    """
    folder = project / "campaigns" / "c1"
    done = campaign(project, "c1")
    assert "10 of 10 elements are missing" in done.stdout, done.stdout + done.stderr
    job, speeds, collector = re.findall(r"job (\d+)", done.stdout)
    assert asked(job, "Dependency", "OverSubscribe") == ["(null)", "OK"]
    assert asked(speeds, "Dependency", "OverSubscribe") == [f"afterany:{job}_*(unfulfilled)", "NO"]  # a node of its own
    assert asked(collector, "Dependency") == [f"afterany:{job}_*(unfulfilled),afterany:{speeds}_*(unfulfilled)"]
    refused = campaign(project, "c1")
    assert refused.returncode == 2
    assert "campaign c1 has jobs in the queue: " in refused.stderr
    # What is edited from here on is in no job.
    (project / "stages" / "train.py").write_text("raise SystemExit('edited')\n")
    output("scancel", f"{job}_7")
    wait_for(lambda: is_in_its_middle(folder, "float32"), 300)
    output("scontrol", "requeue", f"{job}_0")
    wait_for(lambda: is_in_its_middle(folder, "mixed"), 300)
    # As Slurm does before the time limit. It tries again until the job is no longer queued again, and then fails.
    warning = subprocess.Popen(["scancel", "--signal=USR1", "--batch", f"{job}_1"], stderr=subprocess.DEVNULL)
    wait_for(lambda: "interrupted (SIGTERM)" in (folder / "logs" / f"{job}_1.log").read_text(), 60)
    warning.terminate()
    warning.wait()
    status = finish(project, "c1")
    assert status["exit_code"] == 30
    assert status["reasons"] == [
        f"1 of 10 elements did not finish: train small_dense mixed/{SEEDS[3]}. Submit them: make campaign CAMPAIGN=c1"
    ]
    assert (folder / "results" / "report.html").exists()
    assert not (project / "campaigns" / "ledger").exists()

    assert "1 of 10 elements are missing" in campaign(project, "c1").stdout
    status = finish(project, "c1")
    assert status["exit_code"] in (30, 40)  # 40 if other programs took the CPUs while speed was measured
    assert "has no baseline" in status["reasons"][0]
    assert status["runs"] == {"completed": 8}
    records = [json.loads(path.read_text()) for path in (folder / "runs").rglob("record.json")]
    resumed = [(record["variant"], record["seed"]) for record in records if record["resumed"]]
    assert sorted(resumed) == [("float32", SEEDS[0]), ("mixed", SEEDS[0])]
    assert {record["environment"]["git_commit"] for record in records} == {None}
    assert len(ledger(project, "c1")["runs"]) == 8
    assert "campaign c1 is complete" in campaign(project, "c1").stdout
    assert output("squeue", "--noheader") == ""


def asked(job: str, *names: str) -> list[str]:
    """Return Slurm's state of a job, or of the first element of an array."""
    said = dict(word.split("=", 1) for word in output("scontrol", "show", "job", job).split() if "=" in word)
    return [said[name] for name in names]


def is_in_its_middle(folder: Path, variant: str) -> bool:
    """Return whether the run of the first seed has saved an epoch and is not finished."""
    with contextlib.chdir(folder):
        identities = of_runs(load_study(), "small_dense")
    name = name_of(identities[RunKey("small_dense", variant, SEEDS[0])])
    kept = (folder / ".cache" / "unfinished" / name / "checkpoint").glob("*.npz")
    return any(".partial" not in path.name for path in kept)


def ledger(project: Path, name: str) -> dict:
    return json.loads((project / "campaigns" / "ledger" / f"{name}.json").read_text())


def test_drift_is_confirmed_by_a_second_campaign_on_fresh_seeds(project):
    """The ledger is edited so that the pinned campaign was 60 points better: accuracy seems to have dropped."""
    entry = ledger(project, "c1")
    for run in entry["runs"]:
        run["test_accuracy"] = min(1.0, run["test_accuracy"] + 0.6) + 0.001 * (run["seed"] - SEEDS[0])
    (project / "campaigns" / "ledger" / "c1.json").write_text(json.dumps(entry))
    environment = os.environ | {"PYTHONPATH": str(project)}
    subprocess.run([sys.executable, "-m", "stages.pin", "--campaign", "c1"], cwd=project, env=environment, check=True)
    (project / "stages" / "train.py").write_bytes((project / "campaigns" / "c1" / "stages" / "train.py").read_bytes())

    assert campaign(project, "c2").returncode == 0
    status = project / "campaigns" / "c2-again" / "results" / "status.json"
    wait_for(status.exists, 900)
    first, again = finish(project, "c2"), finish(project, "c2-again")
    assert first["exit_code"] == 10
    assert any("Seen once." in finding for finding in first["findings"])
    assert again["exit_code"] == 20
    assert any("Seen twice, on other seeds." in finding for finding in again["findings"])
    for name in ("c2", "c2-again"):
        assert {run["seed"] for run in ledger(project, name)["runs"]} == set(campaign_seeds(name, 4))
