"""Check params.yaml and claims.yaml whole, before anything runs."""

import argparse

from pipeline.claims import load_claims
from pipeline.errors import InputError
from pipeline.study import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    messages = []
    for load in (load_study, load_claims):
        try:
            load()
        except InputError as error:
            messages.append(str(error))
    if messages:
        raise InputError("\n".join(messages))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.check", description=__doc__))
