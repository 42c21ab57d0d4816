"""A study in plain numbers, for `dvc metrics show`, `dvc metrics diff` and `dvc plots`."""

from pipeline.comparison.schema import Comparison, Pair

Numbers = dict[str, float | int]


def summarise(comparison: Comparison) -> dict[str, dict[str, Numbers]]:
    """Return numbers by benchmark and variant; an unknown one is left out, because DVC can't subtract it."""
    tables: dict[str, dict[str, dict[str, float | int | None]]] = {}
    for variant in comparison.variants:
        tables.setdefault(variant.benchmark, {})[variant.variant] = {
            "completed_runs": variant.completed.count,
            "test_accuracy": _rounded(variant.test_accuracy.mean, 5),
            "epoch_seconds": _rounded(variant.epoch_seconds.ratio, 4),
        }
    for pair in comparison.pairs:
        tables[pair.benchmark].setdefault(_name(comparison, pair), {}).update(
            {
                "speedup": _rounded(pair.speedup.ratio, 4),
                "speedup_low": _rounded(pair.speedup.low, 4),
                "speedup_high": _rounded(pair.speedup.high, 4),
                "accuracy_difference_pp": _rounded(pair.accuracy_difference_pp.mean, 3),
                "memory_ratio": _rounded(pair.memory_ratio.ratio, 4),
            }
        )
    return {
        benchmark: {
            variant: {name: value for name, value in numbers.items() if value is not None}
            for variant, numbers in table.items()
        }
        for benchmark, table in tables.items()
    }


def table(comparison: Comparison) -> list[dict[str, str | int | float | None]]:
    """Return every pair as a row: its speedup and accuracy difference with their 95 % intervals."""
    return [
        {
            "benchmark": pair.benchmark,
            "variant": _name(comparison, pair),
            "num_seeds": pair.num_seeds,
            "speedup": pair.speedup.ratio,
            "speedup_low": pair.speedup.low,
            "speedup_high": pair.speedup.high,
            "speedup_at_most": pair.speedup_at_most,
            "accuracy_difference_pp": pair.accuracy_difference_pp.mean,
            "accuracy_difference_pp_low": pair.accuracy_difference_pp.low95,
            "accuracy_difference_pp_high": pair.accuracy_difference_pp.high95,
            "outcome": pair.equivalence.outcome,
        }
        for pair in comparison.pairs
    ]


def _name(comparison: Comparison, pair: Pair) -> str:
    """Name the candidate, and for a further pair also its baseline."""
    known = pair == comparison.find(pair.benchmark, pair.candidate)
    return pair.candidate if known else f"{pair.candidate}_against_{pair.baseline}"


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
