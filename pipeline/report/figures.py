"""Statistics to SVG: one function a chart."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from pipeline.numbers import digits, estimate
from pipeline.report.drawing import INK, Series, draw_svg, squeeze_far_values


def accuracy_by_epoch(name: str, curves: Mapping[str, Series], epochs: Sequence[int]) -> str:
    """Mean validation accuracy by epoch; `values` of a series are the means, one an epoch, in [0, 1]."""

    def draw(axes: Axes) -> None:
        for series in curves.values():
            axes.plot(
                epochs[: len(series.values)],
                series.values,
                color=series.colour,
                linestyle="-" if series.is_baseline_batch else "--",
                marker="o",
                markersize=5,
                markerfacecolor=series.colour if series.is_baseline_batch else "none",
                label=series.label,
            )
        axes.set(xlabel="epoch", title="Validation accuracy, mean over seeds")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend(frameon=False, fontsize=8, handlelength=3)

    found = [f"{series.label} ends at {series.values[-1]:.1%}" for series in curves.values() if series.values]
    return draw_svg(f"{name}-accuracy", text_alternative(f"Validation accuracy by epoch, {name}", found), draw)


def accuracy_by_time(name: str, curves: Sequence[tuple[Series, Sequence[float]]]) -> str:
    """Mean validation accuracy over mean training seconds; a series' `values` are accuracies in [0, 1], by epoch."""

    def draw(axes: Axes) -> None:
        for series, seconds in curves:
            style = "-" if series.is_baseline_batch else "--"
            axes.plot(seconds, series.values, color=series.colour, linestyle=style, marker=".", label=series.label)
        axes.set(xlabel="training seconds, first epoch included", title="Validation accuracy by training time")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))

    found = [
        f"{series.label} reaches {series.values[-1]:.1%} in {digits(seconds[-1])} s"
        for series, seconds in curves
        if series.values and seconds
    ]
    return draw_svg(f"{name}-time", text_alternative(f"Validation accuracy by training time, {name}", found), draw)


def epoch_traces(name: str, runs: Sequence[Series], num_warmup_epochs: int, steady: Sequence[float]) -> str:
    """Training seconds of every epoch of every run, one line a run; the epochs that are left out are shaded.

    `steady` are the seconds that count. A run that was resumed has warmed up twice.
    """

    def draw(axes: Axes) -> None:
        for series in runs:
            style = "-" if series.is_baseline_batch else "--"
            epochs = range(1, len(series.values) + 1)
            axes.plot(epochs, series.values, color=series.colour, linestyle=style, linewidth=1, alpha=0.8)
        axes.axvspan(0.5, num_warmup_epochs + 0.5, color="#808080", alpha=0.18, linewidth=0)
        axes.set(xlabel="epoch (shaded: warm-up)", ylabel="seconds", title="Every epoch of every run", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    found = [f"after the warm-up from {digits(min(steady))} to {digits(max(steady))} s"] if steady else []
    return draw_svg(
        f"{name}-traces", text_alternative(f"Training seconds of every epoch of {len(runs)} runs, {name}", found), draw
    )


def differences(
    name: str, rows: Sequence[tuple[Series, float | None, float | None, float | None]], margin_pp: float
) -> str:
    """Draw a row a candidate: a dot a seed, mean and interval, over the margin's band. A row is (series, mean, …)."""
    drawn = [value for series, *found in rows for value in (*series.values, *found) if value is not None]

    def draw(axes: Axes) -> None:
        axes.axvspan(-margin_pp, margin_pp, color="#009E73", alpha=0.16, linewidth=0)
        axes.axvline(0.0, color=INK, linewidth=1)
        for row, (series, mean, low, high) in enumerate(rows):
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], color=series.colour, linewidth=2.2, solid_capstyle="butt")
            if mean is not None:
                face = series.colour if series.is_baseline_batch else "none"
                axes.plot(mean, row, marker="o", markersize=7, color=series.colour, markerfacecolor=face)
            heights = [row + 0.22] * len(series.values)
            axes.plot(series.values, heights, linestyle="none", marker="|", markersize=7, color=series.colour)
        squeezed = squeeze_far_values(axes, margin_pp, drawn)
        axes.set(
            xlabel=f"percentage points (band: the margin, ±{margin_pp:g}; ticks: seeds){squeezed}",
            title="Accuracy difference, 95 % interval",
        )
        _label_rows(axes, [series.label for series, *_ in rows])

    found = [f"{series.label} {estimate(mean, low, high, '+.2f', ' pp')}" for series, mean, low, high in rows]
    text = f"Test accuracy less that of the baseline, {name}, margin ±{margin_pp:g} pp"
    return draw_svg(f"{name}-differences", text_alternative(text, found), draw)


def by_variant(name: str, quantity: str, title: str, unit: str, series: Sequence[Series]) -> str:
    """Draw a row a variant: one dot a seed, a bar at their mean, from zero."""

    def draw(axes: Axes) -> None:
        for row, variant in enumerate(series):
            mean = sum(variant.values) / len(variant.values) if variant.values else 0.0
            axes.barh(row, mean, height=0.62, color=variant.colour, alpha=0.28 if variant.is_baseline_batch else 0.14)
            axes.plot(
                variant.values,
                [row] * len(variant.values),
                linestyle="none",
                marker="o",
                markersize=5,
                color=variant.colour,
                markerfacecolor=variant.colour if variant.is_baseline_batch else "none",
            )
        axes.set(xlabel=unit, title=title)
        axes.set_xlim(left=0)
        _label_rows(axes, [variant.label for variant in series])

    found = [
        f"{variant.label} {digits(sum(variant.values) / len(variant.values))}" for variant in series if variant.values
    ]
    return draw_svg(f"{name}-{quantity}", text_alternative(f"{title}, {unit}, {name}", found), draw)


def speedups(name: str, rows: Sequence[tuple[Series, float | None, float | None, float | None]]) -> str:
    """Draw a row a candidate: speedup and interval, against a line at 1. A row is (series, ratio, low, high)."""

    def draw(axes: Axes) -> None:
        axes.axvline(1.0, color=INK, linewidth=1)
        for row, (series, ratio, low, high) in enumerate(rows):
            if ratio is None:
                continue
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], color=series.colour, linewidth=2.2, solid_capstyle="butt")
            face = series.colour if series.is_baseline_batch else "none"
            axes.plot(ratio, row, marker="o", markersize=7, color=series.colour, markerfacecolor=face)
        axes.set(xlabel="times the speed of the baseline (right of the line is faster)", title="Speedup, 95 % interval")
        _label_rows(axes, [series.label for series, *_ in rows])

    found = [f"{series.label} {estimate(ratio, low, high, '.2f', '×')}" for series, ratio, low, high in rows]
    return draw_svg(f"{name}-speedup", text_alternative(f"Speedup over the baseline, {name}", found), draw)


def exponent_histogram(name: str, exponents: Sequence[int], counts: Sequence[int], loss_scale: float) -> str:
    """Draw a histogram of gradients by exponent, and the exponents below which float16 has zeros."""
    total = sum(counts) or 1
    smallest = -25  # below half of the smallest float16, 2**-24, a number rounds to zero
    shift = math.log2(loss_scale)
    inside = [index for index, count in enumerate(counts) if count]
    first, last = (min(inside), max(inside)) if inside else (0, len(counts) - 1)

    def draw(axes: Axes) -> None:
        colours = ["#D55E00" if exponent < smallest else "#0072B2" for exponent in exponents]
        axes.bar(exponents, [100 * count / total for count in counts], width=0.9, color=colours)
        for limit, style, text in ((smallest, "-", "unscaled"), (smallest - shift, "--", f"at scale {loss_scale:,g}")):
            axes.axvline(limit - 0.5, color=INK, linewidth=1, linestyle=style, label=f"zero in float16, {text}")
        axes.set_xlim(min(exponents[first], smallest - shift) - 2, exponents[last] + 2)
        axes.set(xlabel="exponent of the gradient, base 2", ylabel="% of gradients", title=f"Gradients of {name}")
        axes.figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)

    zeros = [
        100 * sum(count for exponent, count in zip(exponents, counts, strict=True) if exponent < limit) / total
        for limit in (smallest, smallest - shift)
    ]
    found = [f"{zeros[0]:.3g} % are zero in float16", f"{zeros[1]:.3g} % at a loss scale of {loss_scale:,g}"]
    return draw_svg(
        f"{name}-gradients", text_alternative(f"Exponents of the activation gradients of {name}", found), draw
    )


def by_campaign(
    identifier: str,
    title: str,
    unit: str,
    points: Sequence[tuple[float | None, float | None, float | None]],
    band: tuple[float | None, float | None],
) -> str:
    """Draw a point a campaign, oldest first, each (value, low, high), over the band that the first one sets."""

    def draw(axes: Axes) -> None:
        if band[0] is not None and band[1] is not None:
            axes.axhspan(band[0], band[1], color="#0072B2", alpha=0.14, linewidth=0)
        for number, (value, low, high) in enumerate(points, start=1):
            if low is not None and high is not None:
                axes.plot([number, number], [low, high], color="#0072B2", linewidth=1.6)
            if value is not None:
                axes.plot(number, value, marker="o", markersize=5, color="#0072B2")
        axes.set(xlabel="campaign", ylabel=unit, title=title)
        axes.set_xlim(0.5, len(points) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))

    ends = [("first", points[0])] if len(points) == 1 else [("first", points[0]), ("last", points[-1])]
    found = [f"{which} {estimate(*point, '.3g', '')}" for which, point in ends]
    return draw_svg(identifier, text_alternative(f"{title} by campaign, {unit}, {len(points)} of them", found), draw)


def text_alternative(what: str, found: Sequence[str]) -> str:
    """Return a text alternative: what the chart shows, then what is to be seen in it."""
    return f"{what}: {'; '.join(found) or 'nothing was measured'}"


def _label_rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
