"""Draw statistics as charts in SVG. Those of an answer draw on axes, so that the notebook draws the same.

Text and lines take the colour of the page, so that charts follow light and dark mode.
"""

import html
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.ticker import MaxNLocator, NullLocator

from pipeline.numbers import UNKNOWN, digits, percent, rare
from pipeline.report.answers import AnswerRow
from pipeline.report.words import describe_multiple

# Okabe & Ito's palette: told apart by colour-blind readers. The batch is a second cue: hollow and dashed at 2B and up.
POLICY_COLOURS = {
    "float32": "#0072B2",
    "mixed_float16": "#D55E00",
    "mixed_bfloat16": "#009E73",
    "float16": "#CC79A7",
    "bfloat16": "#E69F00",
    "float8": "#56B4E9",
}
INK = "#010203"  # stands for the page's text colour, which replaces it in the SVG
# A page shows charts at their own size, 12 pixels a letter, on a phone as on a wide window.
WIDTH, HEIGHT = 4.1, 2.9
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
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # each text of a chart repeats the list
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
MAX_SPAN = 8  # times: a band of ± so much less than the farthest value is too narrow to see


def draw_svg(identifier: str, description: str, draw: Callable[[Axes], None], height: float = HEIGHT) -> str:
    """Return an inline SVG with a text alternative; the same bytes for the same data. `height` is in inches."""
    with plt.rc_context(STYLE | {"svg.hashsalt": identifier, "figure.figsize": (WIDTH, height)}):
        figure, axes = plt.subplots()
        draw(axes)
        buffer = io.StringIO()
        # Not savefig, which lays the figure out in a drawing of its own first.
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
        plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Several charts share a page: identifiers get the chart's name in front.
    prefix = re.sub(r"[^\w.-]", "_", identifier)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(description)}" ', 1)


def draw_epoch_times(axes: Axes, rows: Sequence[AnswerRow]) -> None:
    """Draw a bar a variant, its name above it: filled at the baseline's batch, hollow at any other."""
    longest = max((row.epoch_seconds or 0.0 for row in rows), default=0.0) or 1.0
    for place, row in enumerate(rows):
        colour, seconds = POLICY_COLOURS[row.policy], row.epoch_seconds or 0.0
        filled = row.batch_multiplier == rows[0].batch_multiplier
        if seconds:
            axes.barh(place, seconds, 0.36, color=colour if filled else "none", edgecolor=colour, linewidth=1.5)
        words = f"{digits(seconds)} s" if seconds else UNKNOWN
        axes.text(seconds + 0.02 * longest, place, words, verticalalignment="center")
    name_rows(axes, [row.words for row in rows])
    axes.set(xlim=(0, 1.2 * longest), title="Training time of an epoch")
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)


def draw_accuracies(axes: Axes, rows: Sequence[AnswerRow], curves: Mapping[str, Mapping[int, float]]) -> None:
    """Draw the accuracy in [0, 1] by epoch of each variant in `curves`: dashed and hollow at another batch."""
    from_the_top = list(dict.fromkeys(row.policy for row in reversed(rows)))
    for row in rows:
        curve, filled = curves.get(row.name, {}), row.batch_multiplier == rows[0].batch_multiplier
        (line,) = axes.plot(list(curve), list(curve.values()), "o-" if filled else "o--")
        # The first policy is the widest, so that it shows under those that lie upon it.
        layer = from_the_top.index(row.policy)
        line.set(color=POLICY_COLOURS[row.policy], linewidth=1.3 + 1.6 * layer, markersize=4 + 2.4 * layer)
        if filled:
            line.set_label(row.policy)
        else:
            line.set_markerfacecolor("none")
    for multiplier in sorted({row.batch_multiplier for row in rows} - {rows[0].batch_multiplier}):
        label = describe_multiple(multiplier, "batch")
        axes.plot([], [], "o--", color="#808080", markerfacecolor="none", label=label)
    axes.set(xlabel="epoch", title="Validation accuracy, mean over seeds")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda share, _: percent(share, ".3g"))
    axes.legend(handlelength=3)


def draw_differences(axes: Axes, rows: Sequence[AnswerRow]) -> None:
    """Draw a row a candidate, over the margin: its accuracy less the baseline's and the interval, or a cross alone."""
    found = [(row, row.pair.accuracy_difference_pp) for row in rows if row.pair]
    margin = next(row.pair.equivalence.margin_pp for row in rows if row.pair)
    names = []
    for place, (row, difference) in enumerate(found):
        axes.barh(place, 2 * margin, 0.4, left=-margin, color="#009E73", alpha=0.25, linewidth=0)
        axes.vlines(0.0, place - 0.2, place + 0.2, color=INK, linewidth=1)
        colour, name, marker = POLICY_COLOURS[row.policy], row.words, "o"
        if difference.low95 is not None and difference.high95 is not None:
            axes.plot([difference.low95, difference.high95], [place, place], color=colour, linewidth=2.2)
        elif difference.mean is not None:
            name, marker = f"{name} (no interval)", "x"
        if difference.mean is not None:
            face = colour if row.batch_multiplier == 1 else "none"
            axes.plot(difference.mean, place, marker=marker, markersize=7, color=colour, markerfacecolor=face)
        names.append(name)
    drawn = [end for _, d in found for end in (d.mean, d.low95, d.high95) if end is not None]
    axes.use_sticky_edges = False
    axes.margins(x=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    note = _squeeze_far_values(axes, margin, drawn)
    name_rows(axes, names)
    axes.grid(visible=False)
    axes.set(title=f"Difference of test accuracy from {rows[0].policy}")
    axes.set(xlabel=f"percentage points; shaded: margin, ±{margin:g}{note}")


def answer_charts(
    identifier: str, benchmark: str, rows: Sequence[AnswerRow], curves: Mapping[str, Mapping[int, float]]
) -> list[str]:
    """Return the charts of a benchmark's answer: epoch times, accuracies by epoch, differences from the baseline."""
    times = [f"{row.words} {digits(row.epoch_seconds)} s" for row in rows if row.epoch_seconds]
    last = {name: [*curve.values()][-1] for name, curve in curves.items()}
    ends = [f"{row.words} ends at {percent(last[row.name], '.1f')}" for row in rows if row.name in last]
    others = [f"{row.words} {row.difference}" for row in rows if row.pair and row.pair.num_seeds]
    charts: list[tuple[str, Sequence[str], Callable[[Axes], None]]] = [
        ("Training time of an epoch", times, lambda axes: draw_epoch_times(axes, rows)),
        ("Validation accuracy by epoch", ends, lambda axes: draw_accuracies(axes, rows, curves)),
        (f"Difference of test accuracy from {rows[0].policy}", others, lambda axes: draw_differences(axes, rows)),
    ]
    height = max(HEIGHT, 0.6 + 0.4 * len(rows))
    return [
        draw_svg(f"{identifier}-answer-{place}", text_alternative(f"{what}, {benchmark}", found), draw, height)
        for place, (what, found, draw) in enumerate(charts)
        if found
    ]


def exponent_histogram(
    identifier: str, benchmark: str, exponents: Sequence[int], counts: Sequence[int], loss_scale: float
) -> str:
    """Draw a histogram of gradients by exponent, and the exponents below which float16 has zeros."""
    total = sum(counts) or 1
    shares = {exponent: count / total for exponent, count in zip(exponents, counts, strict=True) if count}
    smallest = -25  # below half of the smallest float16, 2**-24, a number rounds to zero
    limits = {"unscaled": smallest, f"at scale {loss_scale:,g}": smallest - math.log2(loss_scale)}

    def draw(axes: Axes) -> None:
        colours = ["#D55E00" if exponent < smallest else "#0072B2" for exponent in shares]
        axes.bar(list(shares), [100 * share for share in shares.values()], width=0.9, color=colours)
        for style, (words, limit) in zip(("-", "--"), limits.items(), strict=True):
            axes.axvline(
                limit - 0.5, color=INK, linewidth=1, linestyle=style, label=f"left of it zero in float16, {words}"
            )
        axes.set(xlabel="exponent of the gradient, base 2", ylabel="% of gradients", title=f"Gradients of {benchmark}")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.figure.legend(loc="outside lower left")

    zeros = {words: sum(share for exponent, share in shares.items() if exponent < limits[words]) for words in limits}
    found = [f"{rare(share)} are zero in float16, {words}" for words, share in zeros.items()]
    described = text_alternative(f"Exponents of the activation gradients of {benchmark}", found)
    return draw_svg(f"{identifier}-gradients", described, draw)


def text_alternative(what: str, found: Sequence[str]) -> str:
    """Return a text alternative: what the chart shows, then what is to be seen in it."""
    return f"{what}: {'; '.join(found) or 'nothing was measured'}"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write a name above each row, from the left edge on: names are too long to stand beside a chart."""
    for place, name in enumerate(names):
        axes.text(0, place - 0.25, name, transform=axes.get_yaxis_transform(), verticalalignment="bottom")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(names) - 0.5, -0.75)


def _squeeze_far_values(axes: Axes, near: float, values: Sequence[float]) -> str:
    """Make x logarithmic beyond ±2 `near`, and say so, where `values` reach so far that ±`near` could not be seen."""
    farthest = max(map(abs, values), default=0.0)
    if farthest <= MAX_SPAN * near:
        return ""
    axes.set_xscale("symlog", linthresh=2 * near, linscale=1)
    low, high = min(*values, -2 * near) * 1.4, max(*values, 2 * near) * 1.4
    powers = range(math.ceil(math.log10(2 * near)), math.ceil(math.log10(farthest)) + 1)
    ticks = [near, *(10.0**power for power in powers if 10.0**power > 3 * near), math.floor(farthest)]
    axes.set_xlim(low, high)
    axes.set_xticks([0.0, *(tick for tick in ticks if tick <= high), *(-tick for tick in ticks if -tick >= low)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    return f"\nlogarithmic beyond ±{2 * near:g}"
