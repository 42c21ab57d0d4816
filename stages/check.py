"""Check all of params.yaml and claims.yaml before anything runs."""

import argparse
import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.claims.claims_file import load_claims
from pipeline.comparison.finished_runs import read_record
from pipeline.errors import InputError
from pipeline.files.code import check_exists
from pipeline.files.places import NUMERICS
from pipeline.machine.environment import device_name_here, installed_engine
from pipeline.machine.hardware import Hardware, device_name, this_machine
from pipeline.machine.left_out import left_out
from pipeline.store.plan import missing_runs, unmade
from pipeline.study.engines import ENGINES
from pipeline.study.schema import RunKey, Study, load_study
from pipeline.words.sentences import Said, sentence
from stages import run

# Seconds, measured on two cores of an Intel Xeon with AMX: for a study's fixed costs, for the shortest measurement of a
# benchmark's speed, and for the loop in `slowness`. The profiles' `seconds_a_run` were measured there, too.
FIXED_SECONDS, MIN_SPEED_SECONDS, PYTHON_SECONDS = 35.0, 55.0, 0.087
USUAL_SHARE = 0.7  # of the speed budget, because intervals are often narrow enough before the budget is spent
NUMERICS_SECONDS = {"facts": 30.0, "trials": 45.0, "all": 90.0}


def main(_: argparse.Namespace) -> None:
    check()


def check() -> None:
    """Check the study and the claims in this folder.

    Print the engine and the hardware for the study, the variants that are left out, and a forecast of the work left.

    Raises:
        InputError: the study or the claims are faulty, the baseline would be left out here, or the variable ENGINE
            names no engine. One message names the faults of both the study and the claims.
    """
    faults: list[str] = []
    with _noting(faults):
        study = load_study()
        for benchmark in study.benchmarks.values():
            with _noting(faults):
                check_exists(Path(benchmark.model.source))
    with _noting(faults):
        load_claims()
    if faults:
        raise InputError("\n".join(faults))
    hardware, engine = this_machine(), installed_engine()
    print(sentence(trains_on(engine, hardware)))
    for name, why in (unused := left_out(study)).items():
        print(sentence(Said(f"left_out.{why}", {"name": name})))
    study = study.without(unused)
    if not study.fits(hardware.memory_bytes):
        print(sentence(Said("check.small_gpu", {"hardware": hardware.name, "gigabytes": study.gpu_memory_gb})))
    for said in runs_from_elsewhere(study, hardware):
        print(sentence(said))
    print(f"{study.name}: {study.description}", sentence(forecast(study, hardware.kind == "cpu")), sep="\n", flush=True)


def forecast(study: Study, on_cpu: bool) -> Said:
    """Return a message with the numbers of missing runs and measurements, and the seconds that all missing work takes.

    The seconds are None if `seconds_a_run` lacks the benchmark of a missing run.
    """
    runs = missing = study.runs()
    unmeasured = study.timed_benchmarks
    with contextlib.suppress(InputError):  # data are not prepared yet, so count everything
        missing, stages = missing_runs(study), unmade(study)
        unmeasured = [name for name in unmeasured if f"speed@{name}" in stages]
    seconds = FIXED_SECONDS + sum(study.seconds_a_run.get(key.benchmark, 0.0) for key in missing)
    if not NUMERICS.exists():
        seconds += NUMERICS_SECONDS[study.numerics]
    seconds *= slowness() if on_cpu else 1.0
    seconds += sum(max(USUAL_SHARE * study.budget_seconds(name), MIN_SPEED_SECONDS) for name in unmeasured)
    is_known = all(key.benchmark in study.seconds_a_run for key in missing)
    numbers = {
        "num_missing": len(missing),
        "num_runs": len(runs),
        "num_unmeasured": len(unmeasured),
        "seconds": seconds if is_known else None,
    }
    return Said("check.forecast", numbers)


def slowness() -> float:
    """Return the time of a short Python loop here, divided by its time on the CPU of the constants above.

    A short run spends most of its time in Python code that traces the model.
    """

    def once() -> float:
        started = time.perf_counter()
        sum(number * number % 7 for number in range(1_000_000))
        return time.perf_counter() - started

    return min(once() for _ in range(3)) / PYTHON_SECONDS


@contextlib.contextmanager
def _noting(faults: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        faults.append(str(error))


def trains_on(engine: str, hardware: Hardware) -> Said:
    """Return a message that names the engine and the hardware, with advice if the engine is for other hardware."""
    names = {"engine": engine, "hardware": hardware.name}
    if hardware.kind == ENGINES[engine].hardware:
        return Said("check.device", names)
    return Said("check.no_device" if hardware.kind == "cpu" else "check.other_device", names)


def runs_from_elsewhere(study: Study, hardware: Hardware) -> list[Said]:
    """Return a message for each other device on which runs of the study were made.

    A seed must be finished on the device where it was begun. On a TPU, return no messages, because only the engine
    knows a TPU's name.
    """
    if hardware.kind == "tpu":
        return []
    here = device_name_here()
    finished: dict[str, list[RunKey]] = defaultdict(list)  # by the device that made the runs
    for key in study.runs():
        with contextlib.suppress(InputError):  # the run is missing, or compare will refuse it
            record = read_record(key)
            if record.planned.campaign == study.campaign:
                finished[device_name(record.environment)].append(key)
    finished.pop(here, None)
    return [
        Said("check.elsewhere", {"num_runs": len(keys), "there": there, "here": here, "seeds": _begun(study, keys)})
        for there, keys in finished.items()
    ]


def _begun(study: Study, finished: Sequence[RunKey]) -> list[int]:
    """Return the seeds that have runs in `finished` and other runs that are not in `finished`."""
    return sorted({key.seed for key in finished} & {key.seed for key in set(study.runs()) - set(finished)})


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.check", description=__doc__))
