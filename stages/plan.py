"""Say how many seeds a margin of accuracy needs, and how many launches narrow intervals of speedup.

Both follow from the spread that a finished study shows; that of accuracy can be given instead.
"""

import argparse
from collections.abc import Callable, Sequence

from pipeline.claims.results import read_comparison
from pipeline.comparison.schema import Turns
from pipeline.machine.terminal import print_table
from pipeline.statistics.equivalence import MAX_SEEDS, detectable_margin, num_seeds_needed, spread_limit
from pipeline.statistics.intervals import MIN_BLOCKS
from pipeline.statistics.launches import num_launches_needed
from stages import run

PLAN_COLUMNS = ("benchmark", "candidate", "seeds", "spread\npp", "margin\npp", "can show\npp", "needed", "cautious")
HALF_WIDTHS = (0.05, 0.02, 0.01)
TURNS_COLUMNS = ("benchmark", "launches", "±", "target", *(f"for ±{width:.0%}" for width in HALF_WIDTHS))


def main(arguments: argparse.Namespace) -> None:
    if arguments.spread_pp is not None:
        rows = [
            _row("", "", arguments.num_seeds, arguments.spread_pp, arguments.margin_pp or 1.0, arguments.num_candidates)
        ]
    else:
        rows = [
            _row(
                pair.benchmark,
                pair.candidate,
                pair.num_seeds,
                pair.equivalence.spread_pp,
                arguments.margin_pp or pair.equivalence.margin_pp,
                pair.equivalence.num_candidates,
            )
            for pair in read_comparison().pairs
        ]
    print("Seeds that establish accuracy within ±margin by TOST at 5 %, with 80 % power, when nothing differs.")
    print("The cautious number allows for a spread as wide as 80 % confidence from these few seeds leaves it.\n")
    print_table(PLAN_COLUMNS, rows, num_names=2)
    if arguments.spread_pp is None:
        print("\nLaunches of all variants that narrow the intervals of speedup, each with as many turns as the last.\n")
        print_table(TURNS_COLUMNS, [_turns_row(turns) for turns in read_comparison().turns], num_names=1)


def _turns_row(turns: Turns) -> Sequence[object]:
    num_launches = len(turns.num_turns_by_launch)
    if turns.half_width is None or turns.launch_spread is None:
        return turns.benchmark, num_launches, *"–––––"
    num_variants = turns.degrees_of_freedom // (num_launches - 1) + 1
    needed = [num_launches_needed(turns.launch_spread, num_variants, width) for width in HALF_WIDTHS]
    widths = f"±{turns.half_width:.1%}", f"±{turns.target_half_width:.0%}"
    return turns.benchmark, num_launches, *widths, *(number or "> 1000" for number in needed)


def _row(
    benchmark: str, candidate: str, num_seeds: int, spread: float | None, margin: float, num_candidates: int
) -> Sequence[object]:
    if spread is None:
        return benchmark, candidate, num_seeds, "too few", f"±{margin:g}", "–", "–", "–"
    needed = [num_seeds_needed(value, margin, num_candidates) for value in (spread, spread_limit(spread, num_seeds))]
    can_show = f"±{detectable_margin(spread, num_seeds, num_candidates):.2g}"
    numbers = [str(number) if number else f"> {MAX_SEEDS}" for number in needed]
    return benchmark, candidate, num_seeds, f"{spread:.3g}", f"±{margin:g}", can_show, *numbers


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of percentage points. Received: {text}")
    return value


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more. Received: {text}")
        return int(text)

    return number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.plan", description=__doc__)
    parser.add_argument("--margin-pp", type=_positive, help="the margin; without it, the study's own")
    parser.add_argument("--spread-pp", type=_positive, help="plan from this standard deviation of paired differences")
    parser.add_argument(
        "--num-seeds", type=_at_least(MIN_BLOCKS), default=MIN_BLOCKS, help="seeds that --spread-pp comes from"
    )
    parser.add_argument("--num-candidates", type=_at_least(1), default=1, help="candidates that will be compared")
    run(main, parser)
