"""Compose params.yaml from conf/, with settings such as profile=paper, if a valid study comes out."""

import argparse
import shutil
from itertools import chain, count
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.writing import whole
from pipeline.study.schema import PARAMS, load_study
from stages import run

CONF = Path("conf")
HAVE_SMALL = ("evening", "paper")


def main(arguments: argparse.Namespace) -> None:
    with whole(PARAMS) as partial:
        _compose(arguments.settings, partial)
        if PARAMS.exists() and PARAMS.read_bytes() != partial.read_bytes():
            print(f"{PARAMS} is composed from conf/; what was there is in {_keep(PARAMS)}")


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
    run(main, parser)
