"""Make the runs of a benchmark that are missing, or were made with different code, data or settings."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.data.datasets import read_description
from pipeline.errors import InputError
from pipeline.files.locks import at_work
from pipeline.machine.engine_choice import choose_engine, take_memory_as_needed
from pipeline.machine.left_out import left_out, study_here, write_left_out
from pipeline.machine.processes import call
from pipeline.store.identity import Identity, check_current, of_runs
from pipeline.store.kept import set_aside
from pipeline.store.making import make_runs
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
        failed = make_runs(study, name, wanted, partial(check_model, study, name))
    for key, fault in failed.items():
        print(f"error: {key.directory}: {fault}", file=sys.stderr)
    if failed:
        sys.exit(1)
    whole, _, wanted_now = planned(arguments)
    check_current(wanted, wanted_now)
    write_left_out(whole, name)  # also makes the folder, which DVC needs even without runs
    if not arguments.run:
        remove_others(Path("runs", name), wanted_now)


def planned(arguments: argparse.Namespace) -> tuple[Study, Study, dict[RunKey, Identity]]:
    """Return the whole study, the study without the variants left out here, and the identities of the wanted runs.

    With `--run`, only that run is wanted; otherwise, all runs of the benchmark.

    Raises:
        InputError: the study is faulty, or has no such benchmark, or an identity can't be computed.
    """
    whole, study, name = load_study(), study_here(), arguments.benchmark
    if name not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {name}")
    wanted = of_runs(study, name)
    if arguments.run:
        wanted = {key: of for key, of in wanted.items() if f"{key.variant}/{key.seed}" == arguments.run}
    return whole, study, wanted


def check_model(study: Study, name: str) -> None:
    """Raise `InputError` if the model of the benchmark `name` can't be trained.

    Skip this check unless the model is imported or the optimizer has arguments.
    """
    benchmark = study.benchmarks[name]
    if isinstance(benchmark.model, Imported) or benchmark.optimizer.arguments:  # others are known to train
        ask_of_model("check", study, name)


def ask_of_model(question: str, study: Study, name: str) -> Any:
    """Call the function `question` of `pipeline.advice.fitness` in a separate process, and return the result.

    The function examines the model of the benchmark `name`.
    """
    dataset = read_description(study.benchmarks[name].dataset)
    return call(_ask_of_model, question, study, name, dataset.image_shape, len(dataset.classes))


def _ask_of_model(question: str, study: Study, *about: Any) -> Any:
    choose_engine([variant.policy for variant in study.variants.values()])
    from pipeline.advice import fitness  # imports the engine

    return getattr(fitness, question)(study, *about)


def remove_others(folder: Path, wanted: dict[RunKey, Identity]) -> None:
    """Remove runs that are not in `wanted` from `folder`, so that DVC's digest of the folder leaves these runs out.

    A run moves into the store if its files are unchanged since it was made and the store does not have it yet.
    Otherwise it is deleted.
    """
    places = {key.directory for key in wanted}
    for place in folder.glob("*/*"):
        if place.is_dir() and place not in places:
            set_aside(place)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.train", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    parser.add_argument("--run", metavar="VARIANT/SEED", help="make only this run, and remove none")
    run(main, parser)
