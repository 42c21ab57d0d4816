"""A study in plain numbers, for `dvc metrics show`, `dvc metrics diff` and `dvc plots`."""

from typing import Any

from pipeline.comparison.schema import Comparison, Pair

# Digits after the point in `summary.json`.
_OF_VARIANT = {"completed_runs": 0, "test_accuracy": 5, "epoch_seconds": 4}
_OF_PAIR = {"speedup": 4, "speedup_low": 4, "speedup_high": 4, "accuracy_difference_pp": 3, "memory_ratio": 4}


def summarise(comparison: Comparison) -> dict[str, dict[str, dict[str, float]]]:
    """Return numbers by benchmark and variant; an unknown one is left out, because DVC can't subtract it."""
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for variant in comparison.variants:
        row: dict[str, Any] = {
            "completed_runs": variant.completed.count,
            "test_accuracy": variant.test_accuracy.mean,
            "epoch_seconds": variant.epoch_seconds.ratio,
        }
        numbers.setdefault(variant.benchmark, {})[variant.variant] = _rounded(row, _OF_VARIANT)
    for row in table(comparison):
        numbers[row["benchmark"]].setdefault(row["variant"], {}).update(_rounded(row, _OF_PAIR))
    return numbers


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


def _rounded(row: dict[str, Any], digits: dict[str, int]) -> dict[str, float]:
    return {name: round(row[name], places) for name, places in digits.items() if row[name] is not None}
