"""Make the files in bundled/ again, from all of MNIST and CIFAR-100."""

import argparse

from pipeline.data.bundled import write_bundled
from pipeline.data.hosts import fetch
from stages import run


def main(_: argparse.Namespace) -> None:
    for name, whole in (("mnist", "mnist"), ("cifar100_quick", "cifar100")):
        parts, came_from = fetch(whole)
        write_bundled(name, parts)
        print(f"bundled/{name} is made from {came_from}")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.bundle", description=__doc__))
