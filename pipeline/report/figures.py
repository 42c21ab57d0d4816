"""Draw results as SVG charts.

`draw_epoch_times` and `draw_accuracies` draw on axes of the caller, so the report's notebook can use both functions.
Text and axes take the page's text colour, so charts follow light and dark mode.
"""

import html
import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import matplotlib.style
import numpy as np

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.ticker import MaxNLocator

from pipeline.report.first_screen import VariantRow
from pipeline.statistics.intervals import Estimate
from pipeline.study.policies import POLICIES
from pipeline.words.numbers import UNKNOWN, digits, percent
from pipeline.words.sentences import Said, sentences

INK = "#010203"  # placeholder for the page's text colour
# At this width, a chart's letters are 12 pixels high. The report never enlarges its charts.
WIDTH, HEIGHT, RIGHT = 4.1, 2.9, 0.1  # inches
TITLE_LETTERS = 44  # as many letters of a title as fit on one line above the axes
# The CSS of a figure in a file of its own, for light and dark mode.
LIGHT_AND_DARK = (
    "svg { --paper: #fff; color: #1f2328 } "
    "@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; color: #e6edf3 } }"
)
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "figure.facecolor": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # a single name, because each text element repeats the list
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.color": "#808080",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class Chart(NamedTuple):
    """Hold a function that draws a chart, a description in words (`said`), and the height and margins in inches.

    `name` is a line to put above the title. Margins are fixed, because the last digits of matplotlib's automatic layout
    differ from process to process.
    """

    said: Said
    draw: Callable[[Axes], None]
    height: float = HEIGHT
    left: float = 0.6
    bottom: float = 0.5
    top: float = 0.3
    name: str = ""


def draw_svg(identifier: str, *charts: Chart) -> str:
    """Return `charts`, one above another, as an inline SVG with a text alternative.

    The same charts give the same bytes. The user's own matplotlib settings have no effect.

    Args:
        identifier: a text that no other SVG of the page has. Each id in this SVG begins with the text.
    """
    total = sum(chart.height for chart in charts)
    with matplotlib.style.context(["default", STYLE | {"svg.hashsalt": identifier}]):
        figure, above = plt.figure(figsize=(WIDTH, total)), 0.0
        for chart in charts:
            above += chart.height
            width, height = WIDTH - chart.left - RIGHT, chart.height - chart.bottom - chart.top
            corner = chart.left / WIDTH, (total - above + chart.bottom) / total
            axes = figure.add_axes((*corner, width / WIDTH, height / total))
            chart.draw(axes)
            axes.set_title(chart.name + axes.get_title("left"))
        buffer = io.StringIO()
        # `savefig` would draw the figure once more, only to lay it out.
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
        plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Several SVGs share a page, so each id in this one is prefixed with `identifier`.
    prefix = re.sub(r"[^\w.-]", "_", identifier)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    words = html.escape(sentences(chart.said for chart in charts))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)


def draw_epoch_times(axes: Axes, rows: Sequence[VariantRow]) -> None:
    """Draw the training seconds of an epoch as a bar for each variant, under the variant's name.

    The bar is filled if the variant has the batch size of the first row, and hollow otherwise.
    """
    longest = max((row.epoch_seconds or 0.0 for row in rows), default=0.0) or 1.0
    for place, row in enumerate(rows):
        colour, seconds = POLICIES[row.policy].colour, row.epoch_seconds or 0.0
        filled = row.batch_multiplier == rows[0].batch_multiplier
        if seconds:
            axes.barh(place, seconds, 0.36, color=colour if filled else "none", edgecolor=colour, linewidth=1.5)
        words = f"{digits(seconds)} s" if seconds else UNKNOWN
        axes.text(seconds + 0.02 * longest, place, words, verticalalignment="center")
    for place, row in enumerate(rows):  # names are too long to fit next to a bar
        axes.text(0, place - 0.25, row.full_words, transform=axes.get_yaxis_transform(), verticalalignment="bottom")
    axes.set(xlim=(0, 1.2 * longest), ylim=(len(rows) - 0.5, -0.75), yticks=[], title="Training time of an epoch")
    axes.xaxis.set_visible(False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.grid(visible=False)


def draw_accuracies(axes: Axes, rows: Sequence[VariantRow], curves: Mapping[str, Mapping[int, float]]) -> None:
    """Draw a curve of accuracy by epoch for each variant.

    The curve is dashed, with hollow markers, unless the variant has the batch size of the first row.

    Args:
        curves: by variant and epoch, the validation accuracy in [0, 1].
    """
    from_the_top = list(dict.fromkeys(row.policy for row in reversed(rows)))
    for row in rows:
        curve, filled = curves.get(row.name, {}), row.batch_multiplier == rows[0].batch_multiplier
        (line,) = axes.plot(list(curve), list(curve.values()), "o-" if filled else "o--")
        # The first policy has the widest line, which stays visible under later lines.
        layer = from_the_top.index(row.policy)
        line.set(color=POLICIES[row.policy].colour, linewidth=1.3 + 1.0 * layer, markersize=4 + 1.6 * layer)
        if filled:
            line.set_label(row.words)
        else:
            line.set_markerfacecolor("none")
    for multiplier in sorted({row.batch_multiplier for row in rows} - {rows[0].batch_multiplier}):
        axes.plot([], [], "o--", color="#808080", markerfacecolor="none", label=f"batch × {multiplier}")
    axes.set(xlabel="epoch", title="Validation accuracy, mean over seeds")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda share, _: percent(share, ".3g"))
    axes.legend(handlelength=3)


def answer_charts(benchmark: str, rows: Sequence[VariantRow], curves: Mapping[str, Mapping[int, float]]) -> list[Chart]:
    """Return a chart of epoch times and a chart of accuracies by epoch. Leave out a chart that would be empty.

    Args:
        benchmark: the benchmark's name for readers.
        curves: by variant and epoch, the validation accuracy in [0, 1].
    """
    last = {name: [*curve.values()][-1] for name, curve in curves.items()}
    times = {row.full_words: row.epoch_seconds for row in rows if row.epoch_seconds}
    ends = {row.full_words: last[row.name] for row in rows if row.name in last}
    height = max(HEIGHT, 0.6 + 0.4 * len(rows))
    charts = []
    if times:
        said = Said("chart.times", {"title": benchmark, "found": times})
        charts.append(Chart(said, lambda axes: draw_epoch_times(axes, rows), height, left=0.1, bottom=0.1))
    if ends:
        said = Said("chart.accuracies", {"title": benchmark, "found": ends})
        charts.append(Chart(said, lambda axes: draw_accuracies(axes, rows, curves), height))
    return charts


def draw_speeds_by_width(axes: Axes, speeds: Mapping[str, Mapping[int, Estimate]]) -> None:
    """Draw the speed of each policy relative to the baseline, with the 95 % interval, by the width of a dense network.

    Args:
        speeds: by policy and width (units of a layer), the ratio to the baseline's speed.
    """
    for policy, by_width in speeds.items():
        ratios = [(ratio.value, ratio.low, ratio.high) for ratio in by_width.values()]
        value, low, high = np.array(ratios, np.float64).T  # NaN where there is no interval
        row, half = POLICIES[policy], np.array([value - low, high - value])
        axes.errorbar([*by_width], value, half, fmt="o-", color=row.colour, label=row.label, elinewidth=1, capsize=2)
    axes.axhline(1, color=INK, linewidth=1, linestyle="--")
    widths = sorted({width for by_width in speeds.values() for width in by_width})
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, [f"{width:,}" for width in widths])
    axes.set(xlabel="units of a dense layer", title="Speed relative to float32")
    axes.legend()


def width_chart(speeds: Mapping[str, Mapping[int, Estimate]]) -> Chart:
    """Return the chart that `draw_speeds_by_width` draws."""
    found = {
        f"{POLICIES[policy].label} at {width:,} units": ratio.value
        for policy, by_width in speeds.items()
        for width, ratio in by_width.items()
        if ratio.value
    }
    return Chart(Said("chart.widths", {"found": found}), lambda axes: draw_speeds_by_width(axes, speeds))


def answer_figure(charts_by_benchmark: Mapping[str, Sequence[Chart]]) -> str:
    """Return one SVG of all charts, each under the name of its benchmark, for light and dark pages."""
    charts = [
        chart._replace(name=f"{name}\n", height=chart.height + 0.3, top=chart.top + 0.3)
        for name, of in charts_by_benchmark.items()
        for chart in of
    ]
    svg = draw_svg("answer", *charts)
    return (
        svg.replace(">", f"><style>{LIGHT_AND_DARK}</style>", 1).replace("fill: none", "fill: var(--paper)", 1) + "\n"
    )


def exponent_histogram(
    identifier: str, benchmark: str, exponents: Sequence[int], counts: Sequence[int], loss_scale: float
) -> str:
    """Return an SVG histogram of gradients by binary exponent.

    Two lines mark the exponents below which float16 rounds a gradient to zero: one for unscaled gradients, and one for
    gradients that are scaled by `loss_scale`.

    Args:
        identifier: a text that no other histogram of the page has.
        benchmark: the benchmark's name for readers.
        counts: the number of gradients for each of `exponents`.
    """
    total = sum(counts) or 1
    shares = {exponent: count / total for exponent, count in zip(exponents, counts, strict=True) if count}
    smallest = -25  # numbers below half of the smallest float16, 2**-24, round to zero
    limits = {"unscaled": smallest, f"at scale {loss_scale:,g}": smallest - math.log2(loss_scale)}

    def draw(axes: Axes) -> None:
        colours = ["#D55E00" if exponent < smallest else "#0072B2" for exponent in shares]
        axes.bar(list(shares), [100 * share for share in shares.values()], width=0.9, color=colours)
        for style, (words, limit) in zip(("-", "--"), limits.items(), strict=True):
            axes.axvline(
                limit - 0.5, color=INK, linewidth=1, linestyle=style, label=f"left of it zero in float16, {words}"
            )
        title = textwrap.fill(f"Gradients of {benchmark}", TITLE_LETTERS)
        axes.set(xlabel="exponent of the gradient, base 2", ylabel="% of gradients", title=title)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.legend(loc="upper left", bbox_to_anchor=(-0.15, -0.22))

    zeros = {words: sum(share for exponent, share in shares.items() if exponent < limits[words]) for words in limits}
    said = Said("chart.gradients", {"title": benchmark, "found": zeros})
    return draw_svg(f"{identifier}-gradients", Chart(said, draw, HEIGHT + 0.55, bottom=0.95, top=0.45))
