"""Statistics to SVG. Text and lines take the colour of the page, so that charts follow light and dark mode."""

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

# Okabe & Ito's palette: told apart by colour-blind readers. The batch is a second cue: hollow and dashed at 2B and up.
POLICY_COLOURS = {
    "float32": "#0072B2",
    "mixed_float16": "#D55E00",
    "mixed_bfloat16": "#009E73",
    "float16": "#CC79A7",
    "bfloat16": "#E69F00",
}
INK = "#010203"  # stands for the page's text colour, which replaces it in the SVG
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.6, 3.4),
    "font.family": "sans-serif",
    "font.size": 9.5,
    "grid.alpha": 0.25,
    "grid.color": "#808080",
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class Series(NamedTuple):
    """One variant: its label, what it looks like, and its values by seed."""

    label: str
    policy: str
    is_baseline_batch: bool
    values: Sequence[float]

    @property
    def colour(self) -> str:
        return POLICY_COLOURS[self.policy]


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

    return _svg(f"{name}-accuracy", f"Validation accuracy by epoch for each variant of {name}", draw)


def accuracy_by_time(name: str, curves: Sequence[tuple[Series, Sequence[float]]]) -> str:
    """Mean validation accuracy over mean training seconds; a series' `values` are accuracies in [0, 1], by epoch."""

    def draw(axes: Axes) -> None:
        for series, seconds in curves:
            style = "-" if series.is_baseline_batch else "--"
            axes.plot(seconds, series.values, color=series.colour, linestyle=style, marker=".", label=series.label)
        axes.set(xlabel="training seconds, first epoch included", title="Validation accuracy by training time")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))

    return _svg(f"{name}-time", f"Validation accuracy by training time for each variant of {name}", draw)


def epoch_traces(name: str, runs: Sequence[Series], num_warmup_epochs: int) -> str:
    """Training seconds of every epoch of every run, one line a run; the epochs that are left out are shaded."""

    def draw(axes: Axes) -> None:
        for series in runs:
            style = "-" if series.is_baseline_batch else "--"
            epochs = range(1, len(series.values) + 1)
            axes.plot(epochs, series.values, color=series.colour, linestyle=style, linewidth=1, alpha=0.8)
        axes.axvspan(0.5, num_warmup_epochs + 0.5, color="#808080", alpha=0.18, linewidth=0)
        axes.set(xlabel="epoch (shaded: warm-up)", ylabel="seconds", title="Every epoch of every run", yscale="log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return _svg(f"{name}-traces", f"Training seconds of every epoch of every run of {name}", draw)


def differences(
    name: str, rows: Sequence[tuple[Series, float | None, float | None, float | None]], margin_pp: float
) -> str:
    """One row a candidate: a dot a seed, mean and interval, over the band of the margin. A row is (series, mean, …)."""

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
        axes.set(
            xlabel=f"percentage points (band: the margin, ±{margin_pp:g}; ticks: seeds)",
            title="Accuracy difference, 95 % interval",
        )
        _label_rows(axes, [series.label for series, *_ in rows])

    return _svg(f"{name}-differences", f"Test accuracy less that of the baseline, each candidate of {name}", draw)


def by_variant(name: str, quantity: str, title: str, unit: str, series: Sequence[Series]) -> str:
    """One row a variant, one dot a seed, a bar at their mean, from zero."""

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

    return _svg(f"{name}-{quantity}", f"{title} of each variant of {name}", draw)


def speedups(name: str, rows: Sequence[tuple[Series, float | None, float | None, float | None]]) -> str:
    """One row a candidate: the speedup and its interval, against a line at 1. A row is (series, ratio, low, high)."""

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

    return _svg(f"{name}-speedup", f"Speedup over the baseline of each variant of {name}", draw)


def gradient_exponents(name: str, exponents: Sequence[int], counts: Sequence[int], loss_scale: float) -> str:
    """A histogram of gradients by exponent, and below which exponent float16 makes them zero, unscaled and scaled."""
    total = sum(counts) or 1
    smallest = -24  # of float16, subnormal
    shift = math.log2(loss_scale)
    inside = [index for index, count in enumerate(counts) if count]
    first, last = (min(inside), max(inside)) if inside else (0, len(counts) - 1)

    def draw(axes: Axes) -> None:
        colours = ["#D55E00" if exponent < smallest else "#0072B2" for exponent in exponents]
        axes.bar(exponents, [100 * count / total for count in counts], width=0.9, color=colours)
        for limit, style, text in ((smallest, "-", "unscaled"), (smallest - shift, "--", f"at scale {loss_scale:g}")):
            axes.axvline(limit - 0.5, color=INK, linewidth=1, linestyle=style, label=f"zero in float16, {text}")
        axes.set_xlim(min(exponents[first], smallest - shift) - 2, exponents[last] + 2)
        axes.set(xlabel="exponent of the gradient, base 2", ylabel="% of gradients", title=f"Gradients of {name}")
        axes.legend(frameon=False, fontsize=8, loc="upper left")

    return _svg(f"{name}-gradients", f"Histogram of the exponents of the activation gradients of {name}", draw)


def by_campaign(
    identifier: str,
    title: str,
    unit: str,
    points: Sequence[tuple[float | None, float | None, float | None]],
    band: tuple[float | None, float | None],
) -> str:
    """One point a campaign, oldest first, each (value, low, high), over the band that the first one sets."""

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

    return _svg(identifier, f"{title} by campaign", draw)


def _label_rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _svg(identifier: str, description: str, draw: Callable[[Axes], None]) -> str:
    """An inline SVG with a text alternative; the same bytes for the same data."""
    with plt.rc_context(STYLE | {"svg.hashsalt": identifier}):
        figure, axes = plt.subplots()
        draw(axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Several charts share a page: identifiers get the chart's name in front.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{identifier}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{description}" ', 1)
