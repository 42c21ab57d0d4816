"""The command of deploy/kubernetes/campaign.yaml, run for each index as a pod would.

Its user id has no name, and its home can't be written. Without Kubernetes, what starts pods, and when, is not tested.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from cluster.campaigns import STUDY, make_project, surroundings
from conftest import REPOSITORY
from projects import run

from pipeline.campaign.preparing import campaign_seeds

MANIFEST = REPOSITORY / "deploy" / "kubernetes" / "campaign.yaml"
OBJECTS = {found["kind"]: found for found in yaml.safe_load(MANIFEST.read_text())["items"]}
POD = OBJECTS["Job"]["spec"]["template"]["spec"]
CAMPAIGN = "campaign-29412180"  # as Kubernetes names the Job of a CronJob
# The Python of the tests may lie where root alone can read.
MAY_READ = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="to become the user of a pod takes root")


@pytest.fixture
def project() -> Iterator[Path]:
    """A project as it lies in an image, which only root may write, with a volume for campaigns."""
    with tempfile.TemporaryDirectory(prefix="pods-") as name:
        Path(name).chmod(0o755)
        folder = Path(name, "project")
        make_project(folder, STUDY | {"seeds": [0]})
        (folder / "campaigns").mkdir()
        (folder.parent / "home").mkdir(mode=0o555)
        user = POD["securityContext"]["runAsUser"]
        for path in (folder / "campaigns", folder.parent / "tfds"):
            for inner in (path, *path.rglob("*")):
                os.chown(inner, user, user)
        yield folder


def start(project: Path, index: int) -> subprocess.CompletedProcess[str]:
    user = POD["securityContext"]["runAsUser"]
    (container,) = POD["containers"]
    command = [word.replace("--wait 82800", "--wait 1") for word in container["command"]]
    variables = {"CAMPAIGN": CAMPAIGN, "JOB_COMPLETION_INDEX": str(index), "HOME": str(project.parent / "home")}
    as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *MAY_READ)
    return run(project, *as_user, *command, env=surroundings(project) | variables)


def test_pods_run_the_elements_of_a_campaign_and_the_last_one_collects(project):
    """Four elements, two at a time, and one of them again. The last one collects, before and after a result is lost."""
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda index: start(project, index), range(4)):
            assert done.returncode == 0, done.stdout + done.stderr
    assert "epoch" not in start(project, 1).stdout
    beyond = start(project, 5)
    assert (beyond.returncode, "elements are 0 to 4. Received: 5" in beyond.stderr) == (2, True), beyond.stderr

    folder = project / "campaigns" / CAMPAIGN
    collected = start(project, 4)
    assert collected.returncode in (30, 40), collected.stdout + collected.stderr  # 40 on busy CPUs
    assert "has no baseline" in collected.stdout
    (seed,) = campaign_seeds(CAMPAIGN, 1)
    entered = json.loads((project / "campaigns" / "ledger" / f"{CAMPAIGN}.json").read_text())
    assert [(one["variant"], one["seed"], one["outcome"]) for one in entered["runs"]] == [
        ("float32", seed, "completed"),
        ("mixed", seed, "completed"),
    ]
    assert (folder / "results" / "report.html").stat().st_size > 10_000

    shutil.rmtree(folder / "results" / "speed")
    assert start(project, 4).returncode == 30
    assert json.loads((folder / "results" / "status.json").read_text())["reasons"] == [
        "1 of 4 elements did not finish: speed small_dense. Start these elements again"
    ]
