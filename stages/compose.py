"""Compose params.yaml from conf/, with settings such as profile=paper, if a valid study comes out.

With --runtime and no settings, port the study that is in params.yaml to those packages, and compose nothing; but where
that study is `quick` and nobody has edited it, compose it in the size that suits what is here.
"""

import argparse
import contextlib
import shutil
import tempfile
from itertools import chain, count
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.writing import whole
from pipeline.files.yaml_files import read_yaml_text
from pipeline.machine.hardware import this_machine
from pipeline.reproduction.porting import port
from pipeline.study.runtimes import RUNTIMES
from pipeline.study.schema import PARAMS, load_study
from stages import run

CONF = Path("conf")
QUICK, SIZED = ["profile=quick"], ["profile=quick", "size=accelerator"]
HAVE_SMALL = ("evening", "paper", "paper_jax", "tpu")
FULL_SCALE = {"cuda": "paper", "cuda-jax": "paper_jax", "tpu": "tpu"}  # profiles, by the packages that train them


def main(arguments: argparse.Namespace) -> None:
    settings, sized = arguments.settings, False
    if arguments.runtime and (settings == QUICK or (not settings and _is_quick_unedited())):
        sized = RUNTIMES[arguments.runtime].hardware == this_machine().kind != "cpu"
        settings = SIZED if sized else QUICK
    with whole(PARAMS) as partial:
        composed = bool(settings or not arguments.runtime)
        if composed:
            _compose(settings, partial)
        said = ["is composed from conf/"] if composed else []
        changes: list[str] = []
        if arguments.runtime:
            text, changes = port(read_yaml_text(partial if composed else PARAMS), arguments.runtime, str(PARAMS))
            partial.write_text(text, encoding="utf-8")
            said.append(f"is for ENGINE={arguments.runtime}")
        if PARAMS.exists() and PARAMS.read_bytes() != partial.read_bytes():
            print(f"{PARAMS} {' and '.join(said)}; what was there is in {_keep(PARAMS)}")
            for change in changes:
                print(f"  {change}")
    if sized:
        print(
            "quick takes the sources' sizes here, on its own few images; their full scale, for hours: "
            f"make repro PROFILE={FULL_SCALE[arguments.runtime]}"
        )


def _is_quick_unedited() -> bool:
    """Return whether params.yaml is `quick` in one of its sizes, for any packages, as it is composed."""
    with contextlib.suppress(InputError), tempfile.TemporaryDirectory() as folder:
        study, path = load_study(), Path(folder, PARAMS)
        for settings in (QUICK, SIZED) if study.name == "quick" else ():
            _compose(settings, path)
            path.write_text(port(read_yaml_text(path), study.runtime, str(PARAMS)).text, encoding="utf-8")
            if yaml_files.load(path) == yaml_files.load(PARAMS):
                return True
    return False


def _compose(settings: list[str], path: Path) -> None:
    from hydra import compose, initialize_config_dir  # which takes a second to import
    from omegaconf import OmegaConf

    profiles = sorted(profile.stem for profile in (CONF / "profile").glob("*.yaml"))
    for setting in settings:
        field, _, value = setting.partition("=")
        if field == "profile" and value not in profiles:
            raise InputError(f"PROFILE is one of {', '.join(profiles)}. Received: {value}")
    if "size=small" in settings and not {f"profile={name}" for name in HAVE_SMALL} & set(settings):
        raise InputError(f"SMALL=1 is for {', '.join(HAVE_SMALL)}: leave it out, or name one of them as PROFILE")
    try:
        with initialize_config_dir(str(CONF.absolute()), version_base=None):
            text = OmegaConf.to_yaml(compose("config", settings), resolve=True)
    except Exception as error:  # whatever Hydra and OmegaConf raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{' '.join(settings)}: can't be composed: {first}") from None
    path.write_text(text, encoding="utf-8")
    load_study(path)


def _keep(params: Path) -> Path:
    """Keep a copy of `params` beside it: one that has been made before, or a new one that overwrites none."""
    names = chain(["params.before.yaml"], (f"params.before-{number}.yaml" for number in count(2)))
    copies = map(params.with_name, names)
    copy = next(copy for copy in copies if not copy.exists() or copy.read_bytes() == params.read_bytes())
    return Path(shutil.copyfile(params, copy))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.compose", description=__doc__)
    parser.add_argument("settings", nargs="*", help="as Hydra takes them: profile=paper, seeds=[0,1]")
    parser.add_argument("--runtime", choices=RUNTIMES, help="port the study to these packages, and change nothing else")
    run(main, parser)
