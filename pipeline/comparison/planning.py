"""Plan seeds that settle what a comparison leaves open of accuracy, and launches that narrow intervals of speedup."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.comparison.schema import Comparison, Pair, Turns
from pipeline.comparison.wording import count_seeds, margin_means_something
from pipeline.speed.circumstances import Circumstances
from pipeline.speed.turns import MAX_LAUNCHES, MAX_ROWS, STARTUP_SHARE
from pipeline.statistics.equivalence import MAX_SEEDS, POWER, num_seeds_needed, spread_limit
from pipeline.statistics.intervals import MIN_BLOCKS
from pipeline.statistics.launches import half_width_of, num_launches_needed

HALF_WIDTHS = (0.05, 0.02, 0.01)
# Why a pair needs no seeds, or none can be planned for it, and what is said of such pairs.
NO_PLAN = {
    "near chance": "where the margin means nothing beside the accuracy, seeds decide nothing",
    "runs failed": "where runs failed, the rest is a selection, and seeds decide nothing",
    "too few": f"{MIN_BLOCKS} seeds that differ are the least to plan from",
}


class Question(NamedTuple):
    """Hold what is asked of one pair's accuracy, in percentage points; `settled` is empty where it is open."""

    candidate: str
    outcome: str
    num_seeds: int
    mean: float | None
    spread: float | None
    margin: float
    num_candidates: int
    settled: str

    def needed(self, at_power: float = POWER) -> tuple[int | None, int | None]:
        """Return the number of seeds, and the cautious one; None where it is more than `MAX_SEEDS`."""
        spread, mean = self.spread or 0.0, self.mean or 0.0
        numbers = [
            num_seeds_needed(each, self.margin, self.num_candidates, mean, at_power)
            for each in (spread, spread_limit(spread, self.num_seeds))
        ]
        return numbers[0], numbers[1]


def questions(comparison: Comparison, benchmark: str, margin_pp: float | None) -> list[Question]:
    """Return what is asked of each pair of `benchmark`, within the study's own margin or another one."""
    return [_question(comparison, pair, margin_pp) for pair in comparison.pairs if pair.benchmark == benchmark]


def _question(comparison: Comparison, pair: Pair, other_margin_pp: float | None) -> Question:
    test = pair.equivalence
    margin = other_margin_pp or test.margin_pp
    accuracy = comparison.variant(pair.benchmark, pair.baseline).test_accuracy.mean or 0.0
    known = comparison.find(pair.benchmark, pair.candidate) == pair
    outcome, settled = test.outcome + (", beyond" if test.is_beyond else ""), ""
    if not margin_means_something(margin, accuracy):
        settled = "near chance"
    elif pair.failures or pair.baseline_failures:
        settled = "runs failed"
    elif margin != test.margin_pp:
        outcome = "–"  # what is known was asked of the study's own margin
    elif test.is_decided:
        settled = "decided"
    if not settled and pair.accuracy_difference_pp.low95 is None:
        settled = "too few"
    return Question(
        candidate=pair.candidate if known else f"{pair.candidate} against {pair.baseline}",
        outcome=outcome,
        num_seeds=pair.num_seeds,
        mean=pair.accuracy_difference_pp.mean,
        spread=test.spread_pp,
        margin=margin,
        num_candidates=test.num_candidates,
        settled=settled,
    )


def describe_seeds(asked: Sequence[Question]) -> str:
    """Say in a line how many seeds a benchmark takes until every pair is decided."""
    counts = {why: sum(question.settled == why for question in asked) for why in NO_PLAN}
    apart = "".join(f"; {NO_PLAN[why]} (pairs: {count})" for why, count in counts.items() if count)
    is_open = [question for question in asked if not question.settled]
    if not is_open:
        return ("no pair to plan for" if apart else "every pair is decided") + apart
    # All of them with 80 % power, however they hang together: what may be missed is shared out.
    needed = {question.candidate: question.needed(1 - (1 - POWER) / len(is_open)) for question in is_open}
    never = [name for name, (number, _) in needed.items() if number is None]
    most = max((number for number, _ in needed.values() if number is not None), default=0)
    if never:
        rest = f"; {count_seeds(most)} for every other open pair" if most else ""
        return f"more than {MAX_SEEDS} seeds for {', '.join(never)}{rest}{apart}"
    cautious = [number or math.inf for _, number in needed.values()]
    careful = f"{max(cautious):g}" if math.isfinite(max(cautious)) else f"more than {MAX_SEEDS}"
    together = f", all {len(is_open)} with {POWER:.0%} power" if len(is_open) > 1 else ""
    return f"{count_seeds(most)} for every open pair{together}; cautiously {careful}{apart}"


def launches_needed(turns: Turns, half_width: float, side_by_side: bool) -> int | None:
    """Return how many launches give intervals of ± `half_width`; None where the stage would not make as many."""
    spread = _spread(turns)
    if spread is None:
        return None
    needed = num_launches_needed(spread, _num_variants(turns), half_width)
    return None if needed is None or needed > most_launches(side_by_side) else needed


def most_launches(side_by_side: bool) -> int:
    return MAX_LAUNCHES if side_by_side else MAX_ROWS


def _spread(turns: Turns) -> float | None:
    """Return the spread from launch to launch that plans rest on: that of the variant with the widest interval."""
    if turns.launch_spread is None or turns.half_width is None:
        return turns.launch_spread
    of_one = half_width_of(1.0, _num_variants(turns), len(turns.num_turns_by_launch))  # exp(width) - 1
    return max(turns.launch_spread, math.log1p(turns.half_width) / math.log1p(of_one))


def _num_variants(turns: Turns) -> int:
    return turns.degrees_of_freedom // (len(turns.num_turns_by_launch) - 1) + 1


def how_to_narrow(turns: Turns, circumstances: Circumstances) -> Iterator[str]:
    """Say what the study has to ask for, for intervals of speedup that are narrower than they are."""
    spread = _spread(turns)
    if turns.half_width is None or spread is None:
        return
    side_by_side, num_made = circumstances.side_by_side, len(turns.num_turns_by_launch)
    for width in sorted({*HALF_WIDTHS, turns.target_half_width}, reverse=True):
        if width >= turns.half_width:
            continue
        needed = launches_needed(turns, width, side_by_side)
        if needed is None:
            most = most_launches(side_by_side)
            reached = half_width_of(spread, _num_variants(turns), most)
            yield (
                f"±{width:.0%} takes a quieter machine: the {most} launches that are the most made give ±{reached:.1%} "
                f"where a variant's time varies by {spread:.1%}"
            )
            return
        # Starting processes may take this share of the budget; what is left over is not spent.
        budget = math.ceil(needed * circumstances.spent_seconds / num_made / STARTUP_SHARE)
        yield (
            f"±{width:.0%} takes {needed} launches: speed.target_half_width: {width:g}, "
            f"speed.budget_seconds: {budget} is enough"
        )
