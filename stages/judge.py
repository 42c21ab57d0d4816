"""Judge every claim in claims.yaml by the results of this study."""

import argparse

from pipeline.claims.verdicts import judge_results
from pipeline.errors import InputError
from pipeline.files.places import CLAIMS, NUMERICS, PARAMS
from pipeline.machine.left_out import study_as_made
from pipeline.store.plan import has_other_numerics
from stages import run, unedited


def main(_: argparse.Namespace) -> None:
    with unedited(PARAMS, CLAIMS):
        if has_other_numerics(study_as_made()):
            raise InputError(f"{NUMERICS} was made by another study or by other code. Make it again: dvc repro")
        judge_results()


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.judge", description=__doc__))
