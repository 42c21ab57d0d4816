"""Images, a Docker that builds them, and a small study for their users."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import certifi
import projects
import pytest
from conftest import REPOSITORY
from debian import fetch, install
from fake_datasets import write_fake_tfds
from projects import PROFILE, dense_study, make_project

TARGETS = ("cpu", "cuda", "cuda-jax", "tpu")
STRANGER = 12345  # a user of no name, where the tests run as root
MARKER = "# a certificate authority of the tests"
SETTINGS = ("MAKEFLAGS", "MAKELEVEL", "ENGINE", "PROFILE", "TARGET", "IMAGE", "PYTHONPATH", "PYTHONWARNINGS")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in SETTINGS}
STUDY = dense_study(num_epochs=3)


def run(
    *command: str | Path, folder: Path = REPOSITORY, succeeds: bool = True, **changes: str
) -> subprocess.CompletedProcess[str]:
    done = projects.run(folder, *command, env=ENVIRONMENT | changes)
    assert (done.returncode == 0) == succeeds, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def output(*command: str | Path, **options) -> str:
    return run(*command, **options).stdout.strip()


def as_stranger(*command: str | Path, folder: Path, **options) -> subprocess.CompletedProcess[str]:
    """The command as an ordinary user who may use Docker."""
    if os.getuid() == 0:
        docker_group = Path("/var/run/docker.sock").stat().st_gid
        command = (*("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", f"--groups={docker_group}"), *command)
    return run(*command, folder=folder, HOME=str(folder.parent), **options)


def owner() -> int:
    return os.getuid() or STRANGER


def can_build(client: str | None) -> bool:
    """From version 23 on, a client builds with a plugin only."""
    if not client or not Path(client).exists():
        return False
    version = projects.run(REPOSITORY, client, "version", "--format", "{{.Client.Version}}").stdout
    plugin = projects.run(REPOSITORY, client, "buildx", "version")
    return plugin.returncode == 0 or int(version.split(".")[0] or 0) < 23


def docker_client() -> str | None:
    return next((c for c in (shutil.which("docker"), "/usr/bin/docker") if can_build(c)), None)


def answers(client: str) -> bool:
    return subprocess.run([client, "info"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def docker(tmp_path_factory) -> Iterator[str]:
    """A Docker client whose daemon answers."""
    if not docker_client() or not shutil.which("dockerd"):
        fetch("docker.io", "iptables")
    client = docker_client()
    assert client, "there is no Docker client that can build: apt-get install docker.io docker-buildx"
    if answers(client):
        yield client
        return
    log = tmp_path_factory.mktemp("dockerd") / "log"
    with log.open("w") as file, subprocess.Popen(["dockerd"], stdout=file, stderr=file) as daemon:
        deadline = time.monotonic() + 60
        while not answers(client):
            assert daemon.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(1)
        yield client
        daemon.terminate()


@pytest.fixture(scope="session")
def base(docker) -> str:
    if name := os.environ.get("BASE_IMAGE"):
        return name
    name = "mixed-precision-base:bookworm"
    if subprocess.run([docker, "image", "inspect", name], capture_output=True, check=False).returncode:
        install("debootstrap", "debootstrap", "debian-archive-keyring")
        run("deploy/container/base.sh", name, DOCKER=docker)
    return name


@pytest.fixture(scope="session")
def build_environment(docker, base, tmp_path_factory) -> dict[str, str]:
    """Return the variables that build.sh needs here. The certificate file has a line that must be in no image."""
    certificates = tmp_path_factory.mktemp("certificates") / "ca.pem"
    bundles = (os.environ.get(name) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"))
    bundle = next(filter(None, bundles), certifi.where())
    certificates.write_text(f"{MARKER}\n{Path(bundle).read_text()}")
    return {
        "DOCKER": docker,
        "BASE_IMAGE": base,
        "CA_CERTIFICATE": str(certificates),
        "BUILD_OPTIONS": "--network host --progress plain",
    }


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that any user may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="mixed-precision-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def tfds(place) -> Path:
    folder = place / "tensorflow_datasets"
    write_fake_tfds(folder)
    return folder


@pytest.fixture(scope="session")
def project(place) -> Path:
    """A git repository of this tree with a small study, committed, of a user who is not root."""
    folder = place / "project"
    make_project(folder, STUDY, PROFILE)
    give_away(place)
    return folder


def give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner(), -1, follow_symlinks=False)
