"""Figures that a study fills whose runs are long and many: the loss scale over time; precision beside another seed."""

import itertools

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from pipeline.numbers import number, span
from pipeline.report.beside_seeds import beside_seeds, series_of
from pipeline.report.charts import Chart
from pipeline.report.drawing import draw_svg
from pipeline.report.results import Results


def long_run_charts(results: Results, name: str) -> dict[str, Chart]:
    """Return those of the figures that the study has the numbers for, by name."""
    found = {"loss_scale": _loss_scales(results, name)}
    baseline = results.study.comparison.baseline
    agreements = [each for each in results.agreements if (each.benchmark, each.baseline) == (name, baseline)]
    found |= beside_seeds(results, agreements)
    return {figure: chart for figure, chart in found.items() if chart}


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
        for number_of, ((variant, seed), values) in enumerate(scales.items()):
            series = series_of(results, name, variant)
            label = variant if seed == min(s for v, s in scales if v == variant) else None
            style = "-" if series.is_baseline_batch else "--"
            # A scale falls in the first steps of an epoch. The lines of runs are moved apart: they share powers of two.
            moved = [value * 2 ** (0.03 * (number_of - len(scales) / 2)) for value in values]
            axes.step(range(len(values)), moved, where="pre", color=series.colour, linestyle=style, label=label)
            overflowed = [epoch for epoch, count in enumerate(skipped[variant, seed], start=1) if count]
            marks = [moved[epoch] for epoch in overflowed]
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
            f"{variant} skips {span(counts)} of {num_steps:,} steps a run, {span(first)} of them in the first epoch, "
            f"and its scale starts at {span([scales[key][0] for key in of_variant])} and ends at {span(ends)}"
        )
    rows = [
        [variant, seed, number(values[0]), *(f"{number(v)} ({s})" for v, s in zip(values[1:], counts, strict=True))]
        for (variant, seed), values in scales.items()
        for counts in [skipped[variant, seed]]
    ]
    description = f"Dynamic loss scale and skipped steps by epoch, {name}: {'; '.join(found)}"
    columns = ["variant", "seed", "at the start", "at the end of each epoch (steps skipped in it)"]
    return Chart(draw_svg(f"{name}-loss-scale", description, draw), columns, rows)
