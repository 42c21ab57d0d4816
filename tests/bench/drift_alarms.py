"""Simulate how often the rule for scheduled repetitions raises a false alarm, and how often it sees a true change.

One quantity, normal: it varies from seed to seed (standard deviation 1) and from campaign to campaign (`between`).
Prints one JSON line a row: the share of simulated histories with a warning at a given campaign, and with drift that its
repetition confirms.
"""

import argparse
import json

import numpy as np

from pipeline.statistics.shifts import shift


def rates(
    rng: np.random.Generator, num_seeds: int, num_pinned: int, between: float, moved: float, num_histories: int
) -> dict[str, float]:
    """Return the shares of histories in which the campaign leaves the band, and in which its repetition does so again.

    Args:
        num_pinned: campaigns that are the baseline.
        between: standard deviation of what a campaign's seeds have in common.
        moved: by how much the truth has moved since the baseline.
    """
    warned = confirmed = 0
    for _ in range(num_histories):
        worlds = rng.normal(0, between, num_pinned + 2)
        campaigns = [world + rng.normal(0, 1, num_seeds) for world in worlds]
        pinned = [list(values) for values in campaigns[:num_pinned]]
        fresh = (shift(pinned, list(values + moved), 0.0) for values in campaigns[num_pinned:])
        first, again = (found.direction if found else None for found in fresh)
        warned += first is not None
        confirmed += first is not None and first == again
    return {"warned": warned / num_histories, "confirmed": confirmed / num_histories}


def main(arguments: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    for between in (0.0, 1.0):
        for num_pinned in (1, 3, 6):
            for num_seeds in (3, 5, 10):
                for moved in (0.0, 3.0, 6.0):
                    row = {"between": between, "num_pinned": num_pinned, "num_seeds": num_seeds, "moved": moved}
                    print(json.dumps(row | rates(rng, num_seeds, num_pinned, between, moved, arguments.histories)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.drift_alarms", description=__doc__)
    parser.add_argument("--histories", type=int, default=2000)
    main(parser.parse_args())
