"""Say of a baseline whose accuracy leaves its candidates little to show."""

from collections.abc import Mapping
from typing import Any

from pipeline.report.charts import completed, known
from pipeline.report.results import Results
from pipeline.statistics.equivalence import margin_means_something

FAR_APART = 10  # margins: a baseline whose seeds differ by more is told of


def near_chance(results: Results, benchmark: str) -> float | None:
    """Return the baseline's accuracy in [0, 1], where the margin is wide beside it."""
    settings = results.study.comparison
    accuracy = results.comparison.variant(benchmark, settings.baseline).test_accuracy.mean
    if accuracy is None or margin_means_something(settings.margin_pp[benchmark], accuracy):
        return None
    return accuracy


def far_apart(results: Results, benchmark: str, runs: Mapping[str, list[dict[str, Any]]]) -> list[float]:
    """Return the baseline's test accuracies in [0, 1] by seed, where they lie many margins apart; else none."""
    settings = results.study.comparison
    found = known(completed(runs[settings.baseline]), "final_test_accuracy") if settings.baseline in runs else []
    many = found and 100 * (max(found) - min(found)) > FAR_APART * settings.margin_pp[benchmark]
    return found if many else []
