"""Say how many seeds would settle what is open of accuracy, and what would narrow the intervals of speedup.

Both follow from what a finished study found; a spread of accuracy can be given in its place.
"""

import argparse
from collections.abc import Callable, Sequence

from pipeline.claims.results import read_comparison
from pipeline.comparison.finished_speeds import read_circumstances
from pipeline.comparison.planning import (
    HALF_WIDTHS,
    Question,
    describe_seeds,
    how_to_narrow,
    launches_needed,
    most_launches,
    questions,
)
from pipeline.comparison.schema import Turns
from pipeline.machine.terminal import print_table
from pipeline.statistics.equivalence import MAX_SEEDS
from pipeline.statistics.intervals import MIN_BLOCKS
from stages import run

PLAN_COLUMNS = ("candidate", "outcome", "seeds", "mean\npp", "spread\npp", "needed", "cautious")
TURNS_COLUMNS = ("benchmark", "launches", "±", "target", *(f"for ±{width:.0%}" for width in HALF_WIDTHS))
MEANING_OF_SEEDS = f"""\
Seeds that show on which side of the margin a difference lies, if they go on with
this mean and this spread: that it is equivalent (TOST) where the mean lies within
the margin, else that it lies beyond. Each pair by itself, at 5 %, with 80 % power.
The cautious number allows for a spread as wide as 80 % confidence from these few
seeds leaves it. "> {MAX_SEEDS}": the mean is close to the margin, or the spread wide."""


def main(arguments: argparse.Namespace) -> None:
    print(MEANING_OF_SEEDS)
    if arguments.spread_pp is not None:
        margin, spread = arguments.margin_pp or 1.0, arguments.spread_pp
        question = Question("", "–", arguments.num_seeds, 0.0, spread, margin, arguments.num_candidates, "")
        print(f"\nMargin ±{margin:g} pp\n")
        print_table(PLAN_COLUMNS, [_cells(question)], num_names=2)
        return
    comparison = read_comparison()
    for turns in comparison.turns:
        asked = questions(comparison, turns.benchmark, arguments.margin_pp)
        if asked:
            print(f"\n{turns.benchmark}, margin ±{asked[0].margin:g} pp\n")
            print_table(PLAN_COLUMNS, [_cells(question) for question in asked], num_names=2)
            print(f"\n{turns.benchmark}: {describe_seeds(asked)}.")
    print("\nLaunches of all variants that narrow the intervals of speedup, each with as many turns as the last.\n")
    print_table(TURNS_COLUMNS, [_turns_row(turns) for turns in comparison.turns], num_names=1)
    print()
    for turns in comparison.turns:
        for line in how_to_narrow(turns, read_circumstances(turns.benchmark)):
            print(f"{turns.benchmark}: {line}.")


def _cells(question: Question) -> Sequence[object]:
    mean, spread = ("–" if value is None else f"{value:.3g}" for value in (question.mean, question.spread))
    needed = [str(number or f"> {MAX_SEEDS}") for number in question.needed()] if not question.settled else []
    numbers = needed or [question.settled, "–"]
    return question.candidate, question.outcome, question.num_seeds, mean.replace("-", "−"), spread, *numbers


def _turns_row(turns: Turns) -> Sequence[object]:
    num_launches = len(turns.num_turns_by_launch)
    if turns.half_width is None:
        return turns.benchmark, num_launches, *"–––––"
    side_by_side = read_circumstances(turns.benchmark).side_by_side
    needed = [launches_needed(turns, width, side_by_side) for width in HALF_WIDTHS]
    widths = f"±{turns.half_width:.1%}", f"±{turns.target_half_width:.0%}"
    return turns.benchmark, num_launches, *widths, *(number or f"> {most_launches(side_by_side)}" for number in needed)


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
