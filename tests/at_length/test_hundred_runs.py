"""A campaign of a hundred short runs on a real Slurm, from its submission to its report: how long each step takes."""

import json
import time
from datetime import datetime

import pytest
import yaml
from cluster.campaigns import CLUSTER, campaign, output, wait_for
from projects import PROFILE, dense_study, git, make_project

from bench.fake_datasets import write_fake_tfds

NUM_SEEDS = 50  # of two variants


@pytest.mark.usefixtures("slurm")
def test_a_hundred_runs_from_submission_to_report(tmp_path, capsys):
    """With -s it prints a line a step. Two nodes of a core each run the jobs."""
    project = tmp_path / "project"
    seeds = PROFILE | {"seeds": list(range(NUM_SEEDS))}
    make_project(project, dense_study(2), seeds, without=("docs/",))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(CLUSTER))
    for name, value in (("user.name", "t"), ("user.email", "t@example.org")):
        git(project, "config", name, value)
    write_fake_tfds(tmp_path / "tfds")
    started = time.time()
    done = campaign(project, "hundred")
    assert "are missing" in done.stdout, done.stderr
    submitted = time.time()
    folder = project / ".campaigns" / "hundred"
    wait_for(lambda: not output("squeue", "--noheader", "--format=%i").count("_"), 3600)
    trained = time.time()
    wait_for(lambda: not output("squeue", "--noheader"), 3600)
    collected = time.time()
    status = json.loads((folder / "status.json").read_text())
    assert status["runs"] == {"completed": 2 * NUM_SEEDS}
    assert (folder / "report.html").exists()
    records = [json.loads(path.read_text()) for path in (folder / "collector").glob("runs/*/*/*/record.json")]
    inside = sum(record["times"]["run_seconds"] for record in records)
    first = min(datetime.fromisoformat(record["started_at"]).timestamp() for record in records)
    again = campaign(project, "hundred")
    assert "is complete" in again.stdout
    with capsys.disabled():
        print(f"\nclone, data, inputs and submission: {submitted - started:.0f} s")
        print(f"all jobs, two at a time: {trained - submitted:.0f} s; the first run after {first - submitted:.0f} s")
        print(f"of them in the processes of runs: {inside:.0f} s, {inside / len(records):.1f} s a run")
        print(f"collecting, comparing, judging, report: {collected - trained:.0f} s")
        print(f"the same command, when all is there: {time.time() - collected:.0f} s")
