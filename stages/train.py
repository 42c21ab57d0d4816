"""Make the runs of a benchmark that are missing, or were made with different code, data or settings."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from pipeline.data.datasets import read_description
from pipeline.errors import InputError
from pipeline.files.locks import at_work
from pipeline.machine.engine_choice import choose_engine, take_memory_as_needed
from pipeline.machine.hardware import this_machine
from pipeline.machine.left_out import left_out, study_here, write_left_out
from pipeline.machine.processes import call
from pipeline.records.run_record import RunRecord
from pipeline.store.identity import Identity, check_current, of_runs
from pipeline.store.kept import made, obtain_as_read, set_aside
from pipeline.store.making import FailedRunError, Makers
from pipeline.store.plan import check_packages, keeps_limit, num_stops
from pipeline.store.progress import RunProgress
from pipeline.study.benchmark import Imported
from pipeline.study.schema import RunKey, Study, load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    name = arguments.benchmark
    whole, study, wanted = planned(arguments)
    if arguments.run:
        take_memory_as_needed()  # several such commands may share a GPU; their times are not used
        variant = arguments.run.partition("/")[0]
        if why := left_out(whole).get(variant):
            print(f"{variant} is left out: {why}")
            write_left_out(whole, name)
            return
        if not wanted:
            raise InputError(f"--run: must be VARIANT/SEED, a run of {name}. Received: {arguments.run}")
    if study.runs_at_once.get(name, 1) > 1:
        take_memory_as_needed()
    with at_work():
        made = make_all(study, name, wanted)
    whole, study, wanted = planned(arguments)
    check_current(made, wanted)
    write_left_out(whole, name)
    if not arguments.run:
        remove_others(Path("runs", name), wanted)


def planned(arguments: argparse.Namespace) -> tuple[Study, Study, dict[RunKey, Identity]]:
    """Read the study. Return it whole, then without what is left out here, and the identities of the wanted runs."""
    whole, study, name = load_study(), study_here(), arguments.benchmark
    if name not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {name}")
    wanted = of_runs(study, name)
    if arguments.run:
        wanted = {key: of for key, of in wanted.items() if f"{key.variant}/{key.seed}" == arguments.run}
    return whole, study, wanted


def make_all(study: Study, name: str, wanted: dict[RunKey, Identity]) -> dict[RunKey, Identity]:
    """Put every wanted run in place, from the store or by training; return the identities of the runs in place.

    A file that is edited meanwhile gives the runs that read it other identities than those wanted.

    Raises:
        InputError: a run can't be made, or was made with other versions of the packages.
    """
    counts = partial(keeps_limit, study)
    there = {key: folder for key, of in wanted.items() if (folder := made(key.directory, of, counts))}
    missing = [key for key in wanted if key not in there]
    for key in missing:
        check_packages(key.directory, wanted[key])
    if missing:
        check_model(study, name)
    took = {key: read_record(folder).times.run_seconds for key, folder in there.items()}
    num_epochs = {variant: study.benchmarks[name].num_epochs_of(study.variants[variant]) for variant in study.variants}
    failed: dict[RunKey, FailedRunError] = {}
    in_place: dict[RunKey, Identity] = {}
    if not wanted:
        return in_place
    print(f"{name}: {len(missing)} of {len(wanted)} runs to make", flush=True)
    at_once = study.runs_at_once.get(name, 1) if study.fits(this_machine().memory_bytes) else 1
    progress = RunProgress(missing, took, num_epochs, at_once)
    with ThreadPoolExecutor(at_once) as pool, Makers(study, at_once) as makers:

        def make(key: RunKey, of: Identity, folder: Path) -> None:
            progress.begin(key)
            stopped = made(key.directory, of, lambda _: True)
            makers.make(key, of, partial(progress.grow, key), folder, num_stops(study, stopped) if stopped else 0)
            progress.end(key, read_record(folder))

        def have(key: RunKey) -> None:
            if any(not error.by_signal for error in failed.values()):  # a fault of the code would fail every run
                return
            try:
                in_place[key], _ = obtain_as_read(
                    key.directory, lambda: of_runs(study, name)[key], partial(make, key), counts
                )
            except FailedRunError as error:
                failed[key] = error

        try:
            for done in as_completed([pool.submit(have, key) for key in wanted]):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        for key, fault in failed.items():
            print(f"error: {key.directory}: {fault}", file=sys.stderr)
        sys.exit(1)
    return in_place


def read_record(folder: Path) -> RunRecord:
    return RunRecord.model_validate_json((folder / "record.json").read_bytes())


def check_model(study: Study, name: str) -> None:
    """Raise `InputError` before any run starts if the model of the benchmark `name` can't be trained."""
    benchmark = study.benchmarks[name]
    if isinstance(benchmark.model, Imported) or benchmark.optimizer.arguments:  # others are this project's own
        dataset = read_description(benchmark.dataset)
        call(_check_model, study, name, dataset.image_shape, len(dataset.classes))


def _check_model(study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int) -> None:
    choose_engine([variant.policy for variant in study.variants.values()])
    from pipeline.advice import fitness  # imports the engine

    fitness.check(study, name, image_shape, num_classes)


def remove_others(folder: Path, wanted: dict[RunKey, Identity]) -> None:
    """Move runs that are not the study's out of the folder, so that DVC's digest of the folder leaves them out."""
    folder.mkdir(parents=True, exist_ok=True)  # DVC needs it even if the benchmark has no runs
    places = {key.directory for key in wanted}
    for place in folder.glob("*/*"):
        if place.is_dir() and place not in places:
            set_aside(place)
    for variant in folder.glob("*"):
        if variant.is_dir() and not any(variant.iterdir()):
            variant.rmdir()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.train", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    parser.add_argument("--run", metavar="VARIANT/SEED", help="make only this run, and remove none")
    run(main, parser)
