"""Figures of the predictions that precision changes beside those that another seed does, by class too."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from pipeline.comparison.schema import Agreement
from pipeline.numbers import interval, significant
from pipeline.report.charts import Chart
from pipeline.report.drawing import INK, Series, draw_svg
from pipeline.report.results import Results
from pipeline.statistics.intervals import Ratio

EXTREMES = ("lowest", "highest")
MIN_CLASSES = 20  # fewer make no figure: a table of predictions tells as much


def beside_seeds(results: Results, agreements: Sequence[Agreement]) -> dict[str, Chart]:
    """Return the figures of `agreements`, which have one benchmark and baseline, by name."""
    found = {}
    agreements = [each for each in agreements if any(each.between_seeds)]
    if agreements:
        found["examples"] = _examples(results, agreements)
        plain = [each for each in agreements if series_of(results, each.benchmark, each.candidate).is_baseline_batch]
        if plain and len(plain[0].classes) >= MIN_CLASSES:
            found["classes"] = _classes(results, plain)
    return found


def series_of(results: Results, benchmark: str, variant: str) -> Series:
    """Return what a variant looks like, without values."""
    chosen = results.study.variants_of(benchmark)[variant]
    return Series(variant, chosen.policy, chosen.batch_multiplier == 1, [])


def _examples(results: Results, agreements: Sequence[Agreement]) -> Chart:
    """Draw the share of predictions that differ from the baseline's, beside that between seeds."""
    name, baseline = agreements[0].benchmark, agreements[0].baseline
    between_seeds = max((each.between_seeds for each in agreements), key=len)
    rows = {each.candidate: each.between_variants for each in agreements}
    told = [
        f"{each.candidate} beside {baseline} at the same seed in {_mean(each.between_variants):.1%}, "
        f"{significant(each.ratio.ratio, 2)} times as many {interval(each.ratio.low, each.ratio.high, '.2g')}"
        for each in agreements
    ]
    description = (
        f"Test examples that are predicted otherwise, {name}: two seeds of {baseline} differ in "
        f"{_mean(between_seeds):.1%}, from {min(between_seeds):.1%} to {max(between_seeds):.1%}; {'; '.join(told)}"
    )
    draw = _rows_over_band(
        [(series_of(results, name, candidate), values) for candidate, values in rows.items()],
        between_seeds,
        f"test examples predicted otherwise\n(band: {baseline} at two seeds)",
        f"Predictions beside {baseline}'s at the same seed",
    )
    percent = {candidate: [100 * value for value in values] for candidate, values in rows.items()}
    columns = ["candidate", "times as many as between seeds", "low", "high", "predicted otherwise, %", *EXTREMES]
    cells = _cells(percent, {each.candidate: each.ratio for each in agreements})
    last = [f"{baseline}, two seeds each", "", "", "", *_summary([100 * value for value in between_seeds])]
    return Chart(draw_svg(f"{name}-examples", description, draw), columns, [*cells, last])


def _rows_over_band(
    rows: Sequence[tuple[Series, Sequence[float]]], band: Sequence[float], xlabel: str, title: str
) -> Any:
    """Return what draws a row a candidate, its mean and a tick a seed, over the band of what lies between seeds."""

    def draw(axes: Axes) -> None:
        axes.axvspan(min(band), max(band), color="#808080", alpha=0.18, linewidth=0)
        axes.axvline(_mean(band), color=INK, linewidth=1)
        for row, (series, values) in enumerate(rows):
            face = series.colour if series.is_baseline_batch else "none"
            axes.plot(_mean(values), row, marker="o", markersize=7, color=series.colour, markerfacecolor=face)
            heights = [row + 0.22] * len(values)
            axes.plot(values, heights, linestyle="none", marker="|", markersize=7, color=series.colour)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_yticks(range(len(rows)), [series.label for series, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=xlabel, title=title)

    return draw


def _classes(results: Results, agreements: Sequence[Agreement]) -> Chart:
    """Draw a dot a class and candidate: predictions that differ from the baseline's, over those between its seeds."""
    name, baseline = agreements[0].benchmark, agreements[0].baseline
    highest = max(max(each.class_between_seeds + each.class_between_variants) for each in agreements)

    def draw(axes: Axes) -> None:
        axes.plot([0, highest], [0, highest], color=INK, linewidth=1)
        for each in agreements:
            axes.plot(
                each.class_between_seeds,
                each.class_between_variants,
                linestyle="none",
                marker="o",
                markersize=4,
                color=series_of(results, name, each.candidate).colour,
                alpha=0.7,
                label=each.candidate,
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0))
        axes.set(xlabel=f"between two seeds of {baseline}", ylabel="between variants", title="Differing, a dot a class")
        axes.legend(frameon=False, fontsize=8)

    told = []
    for each in agreements:
        both = list(zip(each.class_between_variants, each.class_between_seeds, strict=True))
        fewer = sum(ours < theirs for ours, theirs in both)
        told.append(f"{each.candidate} changes fewer predictions than another seed in {fewer} of {len(both)} classes")
    columns = ["class", *(f"{each.candidate}, %" for each in agreements), f"two seeds of {baseline}, %"]
    every = [each.class_between_variants for each in agreements] + [agreements[0].class_between_seeds]
    shares = zip(agreements[0].classes, *every, strict=True)
    rows: list[list[Any]] = [[label, *(significant(100 * value, 3) for value in values)] for label, *values in shares]
    description = f"Test examples that are predicted otherwise, by class, {name}: {'; '.join(told)}"
    return Chart(draw_svg(f"{name}-classes", description, draw), columns, rows)


def _cells(rows: dict[str, Sequence[float]] | dict[str, list[float]], ratios: dict[str, Ratio]) -> list[list[Any]]:
    return [
        [
            candidate,
            *(significant(value, 3) for value in (ratio.ratio, ratio.low, ratio.high)),
            *_summary(rows[candidate]),
        ]
        for candidate, ratio in ratios.items()
    ]


def _summary(values: Sequence[float]) -> list[str]:
    return [significant(value, 3) for value in (_mean(values), min(values), max(values))]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
