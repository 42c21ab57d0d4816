"""Requests that deploy/container/build.sh and run.sh refuse before they build or run, with a stand-in for Docker.

tests/container has a real one.
"""

import hashlib
import os
import shutil
import subprocess

import pytest
from conftest import REPOSITORY
from projects import git, program, run

# It answers as a client with a daemon, unless that is dead, which has one image, of a clean tree, and no GPU.
DOCKER = """
case "$*" in
  *Version*) [ "$DAEMON" != dead ] || { echo refused >&2; exit 1; } ;;
  "image inspect none") exit 1 ;;
  *mixed-precision.locks*) echo "$LOCKS" ;;
  *--gpus*) echo 'could not select device driver ""' >&2; exit 125 ;;
esac
"""


@pytest.mark.parametrize(
    ("before", "command", "variables", "message"),
    [
        ("", "build.sh gpu", {}, "TARGET is cpu, cuda, cuda-jax or tpu, not 'gpu'"),
        ("", "build.sh cpu", {"DOCKER": "no-such-docker"}, "Docker is missing; install it"),
        ("", "run.sh cpu", {"DAEMON": "dead"}, "does not answer (refused); start it (systemctl start docker)"),
        ("", "run.sh cpu", {"CA_CERTIFICATE": "/nonexistent.pem"}, "can't be read"),
        ("", "run.sh cpu", {"IMAGE": "none"}, "there is no image none; build it: make image TARGET=cpu"),
        ("echo >> requirements/cpu.txt", "run.sh cpu", {}, "was not built from this tree's requirements/cpu.txt"),
        ("rm -r .git", "run.sh cpu", {}, "is no git checkout, which DVC needs"),
        ("", "run.sh cpu", {"TFDS_DATA_DIR": "/nonexistent"}, "TFDS_DATA_DIR=/nonexistent is no folder"),
        ("", "run.sh cuda", {}, 'could not select device driver ""); install the driver and the NVIDIA Container'),
    ],
)
def test_a_request_that_cannot_work_is_refused_with_a_remedy(tmp_path, before, command, variables, message):
    project, programs = tmp_path / "project", tmp_path / "bin"
    for name in ("deploy/container", "requirements"):
        shutil.copytree(REPOSITORY / name, project / name)
    git(project, "init", "--quiet")
    program(programs / "docker", DOCKER)
    script, target = command.split()
    locks = [project / "requirements" / f"{name}.txt" for name in (target, "workflow")]
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)} | variables
    environment["LOCKS"] = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks if lock.exists())).hexdigest()
    subprocess.run(before, cwd=project, shell=True, check=True)  # noqa: S602
    done = run(project, project / "deploy" / "container" / script, target, env=environment)
    assert (done.returncode, done.stderr[:7]) == (2, "error: "), done.stdout + done.stderr
    assert message in done.stderr
