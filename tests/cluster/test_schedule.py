"""The lines of docs/on-your-cluster.md that start a campaign by the clock, put in place and waited for."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.campaigns import output, surroundings, wait_for
from conftest import REPOSITORY
from debian import install

from cluster import campaigns

project = campaigns.project
PAGE = (REPOSITORY / "docs" / "on-your-cluster.md").read_text()
EVERY_MINUTE = "* * * * *"


def documented_line(project: Path) -> str:
    """The page's line for the first of each month, for this checkout and every minute."""
    (line,) = set(re.findall(r"^    0 3 1 \* \* (cd /path/to/checkout && make campaign .*)$", PAGE, re.MULTILINE))
    return line.replace("/path/to/checkout", str(project)).replace(
        "CLUSTER=my-cluster.yaml", f"CLUSTER={project.parent}/cluster.yaml"
    )


@pytest.fixture
def scheduled(project) -> Iterator[Path]:
    """A checkout whose packages are there already; what a schedule submits is cancelled in the end."""
    (project / ".venv").mkdir(exist_ok=True)
    for path in (REPOSITORY / ".venv").iterdir():
        if path.name not in ("parser", "ready") and not (project / ".venv" / path.name).exists():
            (project / ".venv" / path.name).symlink_to(path)
    for path in (REPOSITORY / "requirements").iterdir():  # older than what says that the packages are there
        os.utime(project / "requirements" / path.name, (0, 0))
    (project / ".venv" / "parser").touch()
    (project / ".venv" / "ready").write_text("cpu\n")
    yield project
    subprocess.run(["scancel", "--user=root"], check=True)
    wait_for(lambda: not output("squeue", "--noheader"), 60)
    shutil.rmtree(project / ".campaigns", ignore_errors=True)


def submitted(project: Path) -> bool:
    return bool(list((project / ".campaigns").glob("20*/stages.txt"))) and bool(output("squeue", "--noheader"))


@pytest.fixture(scope="module")
def scrontab(tmp_path_factory) -> str:
    """Slurm's scrontab. Debian leaves it out: there it is built from the source of the same version."""
    if found := shutil.which("scrontab"):
        return found
    install("gcc", "gcc", "libc6-dev")
    install("curl", "curl")
    folder = tmp_path_factory.mktemp("source")
    version = output("dpkg-query", "--show", "--showformat=${source:Version}", "slurm-client")
    (address,) = re.findall("'(.*)/slurm-client_", output("apt-get", "download", "--print-uris", "slurm-client"))
    archive = f"slurm-wlm_{version.rpartition('-')[0]}.orig.tar.gz"
    subprocess.run(["curl", "--fail", "--silent", "--show-error", "-O", f"{address}/{archive}"], cwd=folder, check=True)
    subprocess.run(["tar", "--extract", "--strip-components=1", "--file", archive], cwd=folder, check=True)
    subprocess.run(
        ["./configure", "--quiet", "--disable-dependency-tracking"], cwd=folder, check=True, capture_output=True
    )
    sources = folder / "src" / "scrontab"
    for name in ("default_crontab", "usage"):
        subprocess.run(["ld", "-r", "-b", "binary", "-o", f"{name}.o", f"{name}.txt"], cwd=sources, check=True)
    program = folder / "scrontab"
    libraries = next(Path("/usr/lib").rglob("libslurmfull.so")).parent
    files = [*sources.glob("*.c"), *sources.glob("*.o")]
    command = ["gcc", "-w", "-I.", "-Isrc", "-include", "config.h", *files, "-o", program]
    command += [f"-L{libraries}", "-lslurmfull", f"-Wl,-rpath,{libraries}"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return str(program)


@pytest.mark.usefixtures("slurm")
def test_the_scrontab_line_fires(scheduled, scrontab, tmp_path):
    (option,) = re.findall(r"^    (#SCRON .*)$", PAGE, re.MULTILINE)
    environment = surroundings(scheduled)
    data = f"export TFDS_DATA_DIR={environment['TFDS_DATA_DIR']}"  # Slurm hands on nothing that is not its own
    line = f"{EVERY_MINUTE} {data}; {documented_line(scheduled)}"
    (tmp_path / "crontab").write_text(f"{option}\n#SCRON --output=/dev/null\n{line}\n")
    subprocess.run([scrontab, str(tmp_path / "crontab")], env=environment, check=True)
    try:
        wait_for(lambda: submitted(scheduled), 240)
    finally:
        subprocess.run([scrontab, "-r"], env=environment, check=True)


@pytest.mark.usefixtures("slurm")
def test_the_crontab_line_fires(scheduled):
    """By Debian's cron, which gives a job nearly no environment."""
    install("cron", "cron")
    environment = surroundings(scheduled)
    names = ("PATH", "SLURM_CONF", "TFDS_DATA_DIR", *(name for name in environment if name.startswith("GIT_")))
    settings = "".join(f"{name}={environment[name]}\n" for name in names)
    with tempfile.NamedTemporaryFile("w", suffix="crontab") as file:
        file.write(f"{settings}{EVERY_MINUTE} {documented_line(scheduled)}\n")
        file.flush()
        before = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False).stdout
        subprocess.run(["crontab", file.name], check=True)
    running = subprocess.Popen(["cron", "-f"])
    try:
        wait_for(lambda: submitted(scheduled), 240)
    finally:
        running.terminate()
        running.wait()
        subprocess.run(["crontab", "-"], input=before, text=True, check=True)
