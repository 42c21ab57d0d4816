"""Statistics in words, the same in verdicts, headlines and the report."""

import math

from pipeline.comparison.schema import Comparison, Pair
from pipeline.comparison.vocabulary import OUTCOMES
from pipeline.numbers import estimate, interval
from pipeline.statistics.equivalence import MAX_SEEDS, Equivalence, num_seeds_needed
from pipeline.statistics.intervals import MIN_SEEDS, Ratio

# A margin wider than this share of the baseline's accuracy shows little by being kept: near chance all is equivalent.
MAX_MARGIN_SHARE = 0.1


def margin_means_something(margin_pp: float, baseline_accuracy: float) -> bool:
    """Tell whether the margin is small beside the baseline's accuracy, in [0, 1]."""
    return margin_pp / 100 <= MAX_MARGIN_SHARE * baseline_accuracy


def count_seeds(num_seeds: int) -> str:
    return f"{num_seeds} seed{'s' * (num_seeds != 1)}"


def describe_ratio(ratio: Ratio, of: str = "") -> str:
    """Return a ratio as in "1.23× the speed of float32 [1.10, 1.38]"; words stand where there is no interval."""
    if ratio.ratio is None:
        return "not known"
    return " ".join(filter(None, (f"{ratio.ratio:.2f}×", of, interval(ratio.low, ratio.high, ".2f"))))


def describe_speedup(pair: Pair, with_validation: bool = False) -> str:
    """Return a pair's speedup in words, or its bound where the candidate's runs took too long to be timed."""
    if with_validation and pair.epoch_speedup.ratio is not None:
        return describe_ratio(pair.epoch_speedup, f"the speed of {pair.baseline}, validation included")
    if pair.speedup.ratio is None and pair.speedup_at_most is not None:
        return f"at least {math.floor(10 / pair.speedup_at_most) / 10:.1f} times slower than {pair.baseline}"
    return describe_ratio(pair.speedup, f"the speed of {pair.baseline}")


def describe_kernels(pair: Pair) -> str:
    """Name the kernels of both where they differ, as in "; mixed_float16 with kernels of Eigen, …"."""
    if pair.baseline_kernels == pair.candidate_kernels:
        return ""
    theirs, ours = (" and ".join(kernels) for kernels in (pair.baseline_kernels, pair.candidate_kernels))
    return f"; {pair.candidate} computed with kernels of {ours}, {pair.baseline} with those of {theirs}"


def describe_difference(pair: Pair) -> str:
    """Return the difference as in "−0.12 pp [−0.40, +0.16]"; words stand where there is no interval."""
    difference = pair.accuracy_difference_pp
    return estimate(difference.mean, difference.low95, difference.high95, "+.2f", " pp")


def describe_plan(test: Equivalence) -> str:
    """Tell what would decide, as in "12 seeds would, if they go on as these"."""
    if test.num_seeds_needed is None:
        told = f"if the true difference is the mean found, near the margin, not even {MAX_SEEDS:,} seeds would tell"
        if_none = num_seeds_needed(test.spread_pp, test.margin_pp, test.num_candidates) if test.spread_pp else None
        return f"{told}; if it is zero, {count_seeds(if_none)} would" if if_none else told
    return f"{count_seeds(test.num_seeds_needed)} would tell, if they go on as these"


def what_settles(comparison: Comparison, pair: Pair) -> str:
    """Tell how many seeds would show on which side of the margin a pair's accuracy lies, or that no number would."""
    test, difference = pair.equivalence, pair.accuracy_difference_pp
    accuracy = comparison.variant(pair.benchmark, pair.baseline).test_accuracy.mean or 0.0
    if not margin_means_something(test.margin_pp, accuracy):
        told = "so near to chance no number of seeds would tell"
    elif pair.failures or pair.baseline_failures:
        told = "runs failed, the rest is a selection, and no number of seeds would tell"
    elif test.is_decided:
        told = "decided"
    elif difference.low95 is None:
        told = f"{MIN_SEEDS} seeds that differ are the least to plan from"
    else:
        told = describe_plan(test)
    where = f"{pair.benchmark}: {pair.candidate} beside {pair.baseline}, within ±{test.margin_pp:g} pp"
    return f"{where}: {test.outcome}{', beyond it' * test.is_beyond}; {told}."


def failed_runs(pair: Pair) -> str:
    """Name the runs a comparison lacks, as in "; mixed_float16 diverged at 1 seed"; empty where none is."""
    return "".join(
        f"; {name} {OUTCOMES[outcome]} at {count_seeds(count)}"
        for name, failures in ((pair.candidate, pair.failures), (pair.baseline, pair.baseline_failures))
        for outcome, count in failures.items()
    )
