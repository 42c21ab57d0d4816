"""A study in plain numbers, for `dvc metrics show` and `dvc metrics diff`."""

from pipeline.comparison import Comparison

Numbers = dict[str, float | int]


def summarise(comparison: Comparison) -> dict[str, dict[str, Numbers]]:
    """Numbers by benchmark and variant; what is not known is left out, because DVC can't take differences of it."""
    tables: dict[str, dict[str, dict[str, float | int | None]]] = {}
    for variant in comparison.variants:
        tables.setdefault(variant.benchmark, {})[variant.variant] = {
            "completed_runs": variant.completed.count,
            "test_accuracy": _rounded(variant.test_accuracy.mean, 5),
            "epoch_seconds": _rounded(variant.epoch_seconds.ratio, 4),
        }
    for pair in comparison.pairs:
        name = pair.candidate
        if pair != comparison.find(pair.benchmark, name):  # a further pair
            name = f"{pair.candidate}_against_{pair.baseline}"
            tables[pair.benchmark][name] = {}
        tables[pair.benchmark][name] |= {
            "speedup": _rounded(pair.speedup.ratio, 4),
            "speedup_low": _rounded(pair.speedup.low, 4),
            "speedup_high": _rounded(pair.speedup.high, 4),
            "accuracy_difference_pp": _rounded(pair.accuracy_difference_pp.mean, 3),
            "memory_ratio": _rounded(pair.memory_ratio.ratio, 4),
        }
    return {
        benchmark: {
            variant: {name: value for name, value in numbers.items() if value is not None}
            for variant, numbers in table.items()
        }
        for benchmark, table in tables.items()
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
