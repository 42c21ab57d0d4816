"""Compose params.yaml anew from conf/, with settings such as profile=paper; only where a valid study comes out."""

import argparse
import shutil
from itertools import chain, count
from pathlib import Path

from pipeline.errors import InputError
from pipeline.study import PARAMS, load_study
from stages import run

CONF = Path("conf")


def main(arguments: argparse.Namespace) -> None:
    from dvc.utils.hydra import compose_and_dump  # which takes a second to import

    profiles = sorted(path.stem for path in (CONF / "profile").glob("*.yaml"))
    for setting in arguments.settings:
        field, _, value = setting.partition("=")
        if field == "profile" and value not in profiles:
            raise InputError(f"PROFILE is one of {', '.join(profiles)}. Received: {value}")
    partial = Path("params.partial.yaml")
    try:
        compose_and_dump(str(partial), str(CONF.absolute()), None, "config", "", arguments.settings)
        load_study(partial)
        if PARAMS.exists() and PARAMS.read_bytes() != partial.read_bytes():
            print(f"params.yaml is composed anew from conf/; what was there is in {_keep(PARAMS)}")
        partial.replace(PARAMS)
    finally:
        partial.unlink(missing_ok=True)


def _keep(params: Path) -> Path:
    """The copy of `params` beside it: one that has been made before, or a new one that overwrites none."""
    names = chain(["params.before.yaml"], (f"params.before-{number}.yaml" for number in count(2)))
    copies = map(params.with_name, names)
    copy = next(copy for copy in copies if not copy.exists() or copy.read_bytes() == params.read_bytes())
    return Path(shutil.copyfile(params, copy))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.compose", description=__doc__)
    parser.add_argument("settings", nargs="*", help="as Hydra takes them: profile=paper, seeds=[0,1]")
    run(main, parser)
