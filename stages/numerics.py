"""Examine 16-bit arithmetic on this machine: dtypes, range, loss scaling, gradients, optimizers."""

import argparse
import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.files.locks import at_work
from pipeline.files.places import NUMERICS
from pipeline.files.writing import write_whole
from pipeline.machine.engine_choice import choose_engine, take_memory_as_needed
from pipeline.machine.environment import device_name_here
from pipeline.machine.hardware import this_machine
from pipeline.machine.left_out import study_here
from pipeline.machine.processes import call, shares
from pipeline.numerics.facts import KERAS_POLICIES
from pipeline.store.identity import check_current, of_numerics
from pipeline.study.schema import Study
from stages import run


def main(_: argparse.Namespace) -> None:
    study = study_here()
    identity = of_numerics(study, device_name_here())
    if is_there(identity):
        print(f"{NUMERICS} is made already")
        return
    with at_work():
        results = find(study)
    check_current({"numerics": identity}, {"numerics": of_numerics(study_here(), device_name_here())})
    results = {"schema_version": 4, "identity": identity, "sha256": digest_of(results)} | results
    NUMERICS.parent.mkdir(exist_ok=True)
    write_whole(NUMERICS, json.dumps(results, indent=2) + "\n")


def is_there(identity: dict[str, Any]) -> bool:
    """Return whether the file `NUMERICS` has this identity, and is unchanged since it was written."""
    try:
        said = json.loads(NUMERICS.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    results = {name: value for name, value in said.items() if name not in ("schema_version", "identity", "sha256")}
    return bool(said.get("identity") == identity and said.get("sha256") == digest_of(results))


def digest_of(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def find(study: Study) -> dict[str, Any]:
    """Run the trials in one process and all other experiments in another, and return the results of both.

    The two processes run at the same time, each on half of the cores if there are several cores. If both processes used
    all cores, they would take a fifth longer. On a TPU, which only one process can use, the processes run one after the
    other, on all cores. Both processes compute the digest of the CIFAR-100 notebook's split of data (see
    `experiments.split_digest`). If TensorFlow is installed, the results say whether the two digests are equal.
    """
    take_memory_as_needed()
    num_processes = 1 if this_machine().kind == "tpu" else 2  # only one process can use a TPU
    cores = shares(sorted(os.sched_getaffinity(0)), num_processes)
    with ThreadPoolExecutor(num_processes) as pool:
        rest = pool.submit(call, find_part, False, study, cores[0])
        beside = pool.submit(call, find_part, True, study, cores[-1])
        (found, split), (trials, split_again) = rest.result(), beside.result()
    if split is not None:
        found["facts"]["notebook_split.same_after_restart"] = split == split_again
    return {**found, "trials": trials}


def find_part(trials: bool, study: Study, cores: Sequence[int]) -> tuple[Any, str | None]:
    """Run the trials, or all other experiments, on these cores. Return the results and `experiments.split_digest()`."""
    os.sched_setaffinity(0, cores)
    choose_engine(KERAS_POLICIES)
    from pipeline.numerics import experiments, finding  # these modules import the engine

    return (finding.find_trials if trials else finding.find)(study), experiments.split_digest()


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.numerics", description=__doc__))
