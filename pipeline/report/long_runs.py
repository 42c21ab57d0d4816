"""Figures that a study fills whose runs are long and many: the loss scale over time; precision beside another seed."""

import itertools
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from pipeline.claims.results import Results
from pipeline.comparison.schema import Agreement
from pipeline.comparison.vocabulary import number
from pipeline.report.charts import Chart
from pipeline.report.drawing import INK, Series, draw_svg

MIN_CLASSES = 20  # fewer make no figure: a table of predictions tells as much


def long_run_charts(results: Results, name: str) -> dict[str, Chart]:
    """Return those of the figures that the study has the numbers for, by name."""
    found = {"loss_scale": _loss_scales(results, name)}
    baseline = results.study.comparison.baseline
    agreements = [each for each in results.agreements if (each.benchmark, each.baseline) == (name, baseline)]
    agreements = [each for each in agreements if any(each.between_seeds)]
    if agreements:
        found["examples"] = _examples(results, agreements)
        if len(agreements[0].classes) >= MIN_CLASSES:
            found["classes"] = _classes(results, agreements)
    return {figure: chart for figure, chart in found.items() if chart}


def _series(results: Results, benchmark: str, variant: str, values: Sequence[float]) -> Series:
    chosen = results.study.variants_of(benchmark)[variant]
    return Series(variant, chosen.policy, chosen.batch_multiplier == 1, values)


def _loss_scales(results: Results, name: str) -> Chart | None:
    """Draw the dynamic loss scale at the end of every epoch, a line a run, with the steps skipped in it.

    None where no scale of the study ever moves.
    """
    scales: dict[tuple[str, int], list[float]] = {}
    skipped: dict[tuple[str, int], list[int]] = {}
    steps: dict[str, int] = {}
    for run in results.runs:
        if (run["benchmark"], run["loss_scale"]) == (name, "dynamic") and run["initial_loss_scale"]:
            key = (run["variant"], run["seed"])
            epochs = [row for row in results.epochs if (row["benchmark"], row["variant"], row["seed"]) == (name, *key)]
            scales[key] = [run["initial_loss_scale"], *(row["loss_scale"] for row in epochs)]
            totals = [0, *(row["skipped_steps"] or 0 for row in epochs)]
            skipped[key] = [after - before for before, after in itertools.pairwise(totals)]
            steps[run["variant"]] = run["steps_per_epoch"] * run["num_epochs"]
    if not any(sum(each) for each in skipped.values()) and not any(len(set(each)) > 1 for each in scales.values()):
        return None

    def draw(axes: Axes) -> None:
        for (variant, seed), values in scales.items():
            series = _series(results, name, variant, values)
            label = variant if seed == min(s for v, s in scales if v == variant) else None
            style = "-" if series.is_baseline_batch else "--"
            axes.step(range(len(values)), values, where="post", color=series.colour, linestyle=style, label=label)
            overflowed = [epoch for epoch, count in enumerate(skipped[variant, seed], start=1) if count]
            marks = [values[epoch] for epoch in overflowed]
            axes.plot(overflowed, marks, linestyle="none", marker="x", markersize=7, color=series.colour)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="epoch (cross: steps were skipped in it)", title="Loss scale at the end of an epoch, every run")
        axes.legend(frameon=False, fontsize=8, handlelength=3)

    found = []
    for variant, num_steps in steps.items():
        of_variant = [key for key in scales if key[0] == variant]
        counts, first = [sum(skipped[key]) for key in of_variant], [sum(skipped[key][:1]) for key in of_variant]
        ends = [scales[key][-1] for key in of_variant]
        found.append(
            f"{variant} skips {_span(counts)} of {num_steps:,} steps a run, {_span(first)} of them in the first epoch, "
            f"and its scale starts at {_span([scales[key][0] for key in of_variant])} and ends at {_span(ends)}"
        )
    rows = [
        [variant, seed, number(values[0]), *(f"{number(v)} ({s})" for v, s in zip(values[1:], counts, strict=True))]
        for (variant, seed), values in scales.items()
        for counts in [skipped[variant, seed]]
    ]
    description = f"Dynamic loss scale and skipped steps by epoch, {name}: {'; '.join(found)}"
    columns = ["variant", "seed", "at the start", "at the end of each epoch (steps skipped in it)"]
    return Chart(draw_svg(f"{name}-loss-scale", description, draw), columns, rows)


def _examples(results: Results, agreements: Sequence[Agreement]) -> Chart:
    """Draw a row a candidate: the share of predictions that differ from the baseline's, beside that between seeds."""
    name, baseline = agreements[0].benchmark, agreements[0].baseline
    between_seeds = max((each.between_seeds for each in agreements), key=len)
    middle = sum(between_seeds) / len(between_seeds)

    def draw(axes: Axes) -> None:
        axes.axvspan(min(between_seeds), max(between_seeds), color="#808080", alpha=0.18, linewidth=0)
        axes.axvline(middle, color=INK, linewidth=1)
        for row, each in enumerate(agreements):
            series = _series(results, name, each.candidate, each.between_variants)
            face = series.colour if series.is_baseline_batch else "none"
            mean = sum(each.between_variants) / len(each.between_variants)
            axes.plot(mean, row, marker="o", markersize=7, color=series.colour, markerfacecolor=face)
            heights = [row + 0.22] * len(each.seeds)
            axes.plot(each.between_variants, heights, linestyle="none", marker="|", markersize=7, color=series.colour)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_yticks(range(len(agreements)), [each.candidate for each in agreements])
        axes.set_ylim(len(agreements) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set(
            xlabel=f"test examples predicted otherwise (band: {baseline} at two seeds)",
            title=f"Predictions other than {baseline}'s at the same seed",
        )

    found = [f"{each.candidate} beside {baseline} at the same seed in {_mean(each)}" for each in agreements]
    description = (
        f"Test examples that are predicted otherwise, {name}: two seeds of {baseline} differ in {middle:.1%}, "
        f"from {min(between_seeds):.1%} to {max(between_seeds):.1%}; {'; '.join(found)}"
    )
    columns = ["candidate", "times as many as between seeds", "low", "high", "% other than the baseline, a seed each"]
    rows = [
        [
            each.candidate,
            *(_digits(value) for value in (each.ratio.ratio, each.ratio.low, each.ratio.high)),
            *(_digits(100 * value) for value in each.between_variants),
        ]
        for each in agreements
    ]
    rows.append([f"{baseline}, two seeds each", "", "", "", *(_digits(100 * value) for value in between_seeds)])
    return Chart(draw_svg(f"{name}-examples", description, draw), columns, rows)


def _classes(results: Results, agreements: Sequence[Agreement]) -> Chart:
    """Draw a dot a class and candidate: predictions that differ from the baseline's, over those between its seeds."""
    name, baseline = agreements[0].benchmark, agreements[0].baseline
    highest = max(max(each.class_between_seeds + each.class_between_variants) for each in agreements)

    def draw(axes: Axes) -> None:
        axes.plot([0, highest], [0, highest], color=INK, linewidth=1)
        for each in agreements:
            series = _series(results, name, each.candidate, [])
            axes.plot(
                each.class_between_seeds,
                each.class_between_variants,
                linestyle="none",
                marker="o",
                markersize=4,
                color=series.colour,
                markerfacecolor=series.colour if series.is_baseline_batch else "none",
                alpha=0.7,
                label=each.candidate,
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0))
        axes.set(xlabel=f"between two seeds of {baseline}", ylabel="between variants", title="Differing, a dot a class")
        axes.legend(frameon=False, fontsize=8)

    found = []
    for each in agreements:
        excess = [v - s for v, s in zip(each.class_between_variants, each.class_between_seeds, strict=True)]
        worst = max(range(len(excess)), key=excess.__getitem__)
        found.append(
            f"{each.candidate} changes fewer predictions than another seed in {sum(value < 0 for value in excess)} of "
            f"{len(excess)} classes, and most beyond it in class {each.classes[worst]}, where it is "
            f"{each.class_between_variants[worst]:.1%} beside {each.class_between_seeds[worst]:.1%}"
        )
    columns = ["class", *(f"{each.candidate}, %" for each in agreements), f"two seeds of {baseline}, %"]
    every = [each.class_between_variants for each in agreements] + [agreements[0].class_between_seeds]
    shares = zip(agreements[0].classes, *every, strict=True)
    rows: list[list[Any]] = [[label, *(_digits(100 * value) for value in values)] for label, *values in shares]
    description = f"Test examples that are predicted otherwise, by class, {name}: {'; '.join(found)}"
    return Chart(draw_svg(f"{name}-classes", description, draw), columns, rows)


def _mean(each: Agreement) -> str:
    """Tell the mean share and the ratio, as in "38.1%, 0.94 times as many [0.90, 0.98]"."""
    share = sum(each.between_variants) / len(each.between_variants)
    interval = "(no interval)" if each.ratio.low is None else f"[{each.ratio.low:.2f}, {each.ratio.high:.2f}]"
    return f"{share:.1%}, {each.ratio.ratio:.2f} times as many {interval}"


def _span(values: Sequence[float]) -> str:
    """Tell the least and the greatest, or the only value."""
    return " to ".join(number(value) for value in dict.fromkeys((min(values), max(values))))


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
