"""A real Slurm of two nodes on this machine: a fixture, which `tests/conftest.py` takes in."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from debian import install

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
JobRequeue=1
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=node1 NodeHostname={host} Port={ports[1]} CPUs=1 RealMemory=4000
NodeName=node2 NodeHostname={host} Port={ports[2]} CPUs=1 RealMemory=4000
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """Slurm's controller and two nodes on this machine, installed where it is missing."""
    install("slurmctld", "slurm-wlm", "munge")
    folder, host = tmp_path_factory.mktemp("slurm"), socket.gethostname().partition(".")[0]
    hosts = Path("/etc/hosts")
    for name in (host, "node1", "node2"):  # a name of a node must have an address, or its tasks don't find each other
        if name not in hosts.read_text().split():
            hosts.write_text(hosts.read_text() + f"127.0.0.1 {name}\n")
    (folder / "state").mkdir()
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, host=host, ports=_free_ports(3)))
    if subprocess.run(["pgrep", "munged"], capture_output=True, check=False).returncode:
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge")
        subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", "munged --force"], check=True)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    for command in (["slurmctld"], ["slurmd", "-N", "node1"], ["slurmd", "-N", "node2"]):
        subprocess.run(command, check=True)
    end = time.monotonic() + 60
    while (states := _states()) != "idle":
        assert time.monotonic() < end, states
        time.sleep(0.5)
    yield folder
    subprocess.run(["scancel", "--user=root"], check=False)
    for pid in folder.glob("*.pid"):
        os.kill(int(pid.read_text()), 15)
    del os.environ["SLURM_CONF"]


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on: with fixed ones, a second Slurm on this machine would meet the first."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("", 0))
        return [free.getsockname()[1] for free in sockets]


def _states() -> str:
    command = ["sinfo", "--noheader", "--format=%T"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
