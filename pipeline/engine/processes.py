"""Read what a launcher tells the processes of one run about each other. Nothing here needs an engine."""

import os
import re
import socket
import sys
from collections.abc import Sequence

from pipeline.errors import InputError

JOIN_SECONDS = 120  # how long a process waits for the others; tasks of one `srun` start within seconds


def are_slurm_tasks() -> bool:
    """Return whether this is one of several tasks of a job step of Slurm."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1


def slurm_hosts() -> list[str]:
    """Return the node of each task of the job step, in the order of the tasks.

    Slurm fills one node after the other.

    Slurm writes the nodes as "a1,b[07-08,11]", and the numbers of tasks on them as "2(x3),1".
    """
    nodes: list[str] = []
    for prefix, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]+)\])?", os.environ["SLURM_STEP_NODELIST"]):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
            nodes += [f"{prefix}{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1)]
        nodes += [] if ranges else [prefix]
    counts: list[int] = []
    for count, repeats in re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ["SLURM_STEP_TASKS_PER_NODE"]):
        counts += [int(count)] * int(repeats or 1)
    return [node for node, count in zip(nodes, counts, strict=True) for _ in range(count)]


def expect(addresses: Sequence[str], index: int | str, count: int | str) -> None:
    """Look for the machines that process `index` of `count` is about to wait for, and say that it waits.

    The engines wait in C++ and end the process there. The line printed here tells a reader what it waited for.

    Args:
        addresses: "host" or "host:port".

    Raises:
        InputError: a name has no address. The engines would look for it again and again, and say nothing.
    """
    for host in dict.fromkeys(address.rpartition(":")[0] or address for address in addresses):
        try:
            socket.getaddrinfo(host.strip("[]"), None)
        except OSError as error:
            raise InputError(
                f"engine: process {index} of {count} is to find another on {host!r}, and {socket.gethostname()} knows "
                f"no address of that name ({error.strerror}). Enter it in DNS, or in /etc/hosts of every node."
            ) from None
    print(
        f"process {index} of {count} waits for {', '.join(addresses)}, at most {JOIN_SECONDS} s",
        file=sys.stderr,
        flush=True,
    )
