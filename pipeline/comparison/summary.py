"""A study in plain numbers: a few for `dvc metrics show` and `dvc metrics diff`, every pair for `dvc plots`."""

from collections.abc import Iterator
from typing import Any

from pipeline.comparison.schema import Comparison, Pair
from pipeline.study.schema import Study

# Digits after the point. Each quantity is a file of its own: DVC shows a row a file, and a terminal is 80 columns wide.
METRICS = {"accuracy_difference_pp": 3, "speedup": 4, "test_accuracy": 5, "turn_epoch_seconds": 4}


def summarise(study: Study, comparison: Comparison) -> dict[str, dict[str, float]]:
    """Return numbers by quantity and benchmark; an unknown one is left out, because DVC can't subtract it.

    They are those of the first mixed policy at the baseline's batch.
    """
    numbers: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for pair in _mixed_pairs(study, comparison):
        found = comparison.variant(pair.benchmark, pair.candidate)
        row = {
            "accuracy_difference_pp": pair.accuracy_difference_pp.mean,
            "speedup": pair.speedup.ratio,
            "test_accuracy": found.test_accuracy.mean,
            "turn_epoch_seconds": found.turn_epoch_seconds,
        }
        for name, value in row.items():
            if value is not None:
                numbers[name][pair.benchmark] = round(value, METRICS[name])
    return numbers


def _mixed_pairs(study: Study, comparison: Comparison) -> Iterator[Pair]:
    """Return the first mixed policy of each benchmark at the baseline's batch, beside the baseline."""
    baseline = study.comparison.baseline
    for benchmark in study.benchmarks:
        variants = study.variants_of(benchmark)
        batch = variants[baseline].batch_multiplier
        mixed = [name for name, of in variants.items() if (of.policy[:6], of.batch_multiplier) == ("mixed_", batch)]
        yield from [pair for name in mixed if (pair := comparison.find(benchmark, name, baseline))][:1]


def table(comparison: Comparison) -> list[dict[str, Any]]:
    """Return every pair as a row, as `pairs.csv` has it.

    Intervals are of 95 %. The p-values say that the accuracies differ by less than the margin, at all, and by more,
    each adjusted for the other candidates of its family.
    """
    return [
        {
            "benchmark": pair.benchmark,
            "variant": _name(comparison, pair),
            "num_seeds": pair.num_seeds,
            "speedup": pair.speedup.ratio,
            "speedup_low": pair.speedup.low,
            "speedup_high": pair.speedup.high,
            "speedup_at_most": pair.speedup_at_most,
            "memory_ratio": pair.memory_ratio.ratio,
            "accuracy_difference_pp": pair.accuracy_difference_pp.mean,
            "accuracy_difference_pp_low": pair.accuracy_difference_pp.low95,
            "accuracy_difference_pp_high": pair.accuracy_difference_pp.high95,
            **{f"p_value_{name}": value for name, value in pair.p_values._asdict().items()},
            "outcome": pair.equivalence.outcome,
        }
        for pair in comparison.pairs
    ]


def _name(comparison: Comparison, pair: Pair) -> str:
    """Name the candidate, and for a further pair also its baseline."""
    known = pair == comparison.find(pair.benchmark, pair.candidate)
    return pair.candidate if known else f"{pair.candidate}_against_{pair.baseline}"
