"""Compose params.yaml from conf/, with settings such as profile=paper. An invalid study is not written."""

import argparse
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

from pipeline.errors import InputError
from pipeline.files.locks import AT_WORK, alone
from pipeline.files.places import PARAMS
from pipeline.files.writing import whole
from pipeline.machine.environment import installed_engine
from pipeline.machine.hardware import this_machine
from pipeline.study.engines import ENGINES
from stages import run

CONF = Path("conf")
SMALL = "small"  # the campaign of a study that was cut to a few steps


def main(arguments: argparse.Namespace) -> None:
    replace_params(text_of(arguments.settings, arguments.small))


def compose_for_this_machine() -> None:
    """Replace params.yaml with the profile `gpu` if the installed packages can train on this machine's NVIDIA GPU.

    Do so only if params.yaml is the unchanged profile `quick`.
    """
    has_gpu = this_machine().kind == "nvidia_gpu" == ENGINES[installed_engine()].hardware
    if has_gpu and PARAMS.exists() and PARAMS.read_text(encoding="utf-8") == text_of(["profile=quick"]):
        print("an NVIDIA GPU is here, so the study is PROFILE=gpu; PROFILE=quick keeps the one for CPUs", flush=True)
        replace_params(text_of(["profile=gpu"]))


def text_of(settings: list[str], small: bool = False) -> str:
    """Return the text of params.yaml that these settings compose. If `small`, cut the study to a few steps."""
    from omegaconf import OmegaConf  # takes a second to import, together with Hydra

    values = composed(settings)
    return OmegaConf.to_yaml(OmegaConf.create(in_small(values) if small else values))


def composed(settings: list[str]) -> dict[str, Any]:
    """Return the values of params.yaml that these settings compose.

    Raises:
        InputError: Hydra can't compose the settings.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    try:
        with initialize_config_dir(str(CONF.absolute()), version_base=None):
            return cast(dict[str, Any], OmegaConf.to_container(compose("config", settings), resolve=True))
    except Exception as error:  # whatever Hydra and OmegaConf raise
        raise InputError(f"{' '.join(settings)}: can't be composed: {error}") from None


def in_small(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a study, cut to a few images and steps, to see that all models and variants run."""
    of_data = {"train": "train[:64]", "test": "test[:16]"}
    of_recipe = {"batch_size": 4, "evaluation_batch_size": 8, "num_epochs": 2, "steps_per_execution": 1}
    benchmarks = {
        name: recipe
        | of_recipe
        | {
            "split": recipe["split"] | {"num_train_examples": 8, "num_validation_examples": 8},
            "optimizer": recipe["optimizer"] | {"learning_rate": 0.001},  # a larger one diverges with so few images
            "learning_rate_rule": recipe.get("learning_rate_rule", {}) | {"num_warmup_epochs": 0},
        }
        for name, recipe in values["benchmarks"].items()
    }
    return {
        **values,
        "campaign": SMALL,
        "description": "a few steps of everything, to see that it runs",
        "seeds": [0],
        "num_seeds": {name: min(count, 1) for name, count in values.get("num_seeds", {}).items()},
        "num_seeds_by_variant": {
            benchmark: {name: min(count, 1) for name, count in counts.items()}
            for benchmark, counts in values.get("num_seeds_by_variant", {}).items()
        },
        "seconds_a_run": {},
        "max_run_seconds": None,
        "datasets": {name: source | of_data for name, source in values["datasets"].items()},
        "benchmarks": benchmarks,
        "speed": values["speed"] | {"budget_seconds": 1, "budgets": {}},
    }


def replace_params(text: str) -> None:
    """Write `text` to params.yaml if it is a valid study, and keep a copy of the old file.

    Raises:
        InputError: the study is not valid, or another command works on the study in this folder.
    """
    if PARAMS.exists() and PARAMS.read_text(encoding="utf-8") == text:
        return
    with nobody_at_work(), whole(PARAMS) as partial:
        partial.write_text(text, encoding="utf-8")
        from pipeline.study.schema import load_study  # takes a fifth of a second to import

        load_study(partial)
        if PARAMS.exists():
            print(f"{PARAMS} is composed from conf/; what was there is in {_keep(PARAMS)}")


@contextmanager
def nobody_at_work() -> Iterator[None]:
    """Let no other command work on the study in this folder during the block.

    Raises:
        InputError: another command works on the study already.
    """
    try:
        with alone(AT_WORK, waits=False):
            yield
    except BlockingIOError:
        raise InputError(
            f"another command works in this folder on the study in {PARAMS}, which is left as it is. Wait for the end "
            "of that command, or end it; then run this command again."
        ) from None


def _keep(params: Path) -> Path:
    """Copy `params` to a file next to it, and return the path of the copy. Don't overwrite a copy of other content."""
    names = chain(["params.before.yaml"], (f"params.before-{number}.yaml" for number in count(2)))
    copies = map(params.with_name, names)
    copy = next(copy for copy in copies if not copy.exists() or copy.read_bytes() == params.read_bytes())
    return Path(shutil.copyfile(params, copy))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.compose", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few steps of the study, to see that everything runs")
    parser.add_argument("settings", nargs="*", help="as Hydra takes them: profile=paper, seeds=[0,1]")
    run(main, parser)
