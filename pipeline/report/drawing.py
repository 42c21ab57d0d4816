"""Draw a chart as SVG. Text and lines take the colour of the page, so that charts follow light and dark mode."""

import html
import io
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.ticker import NullLocator

# Okabe & Ito's palette: told apart by colour-blind readers. The batch is a second cue: hollow and dashed at 2B and up.
POLICY_COLOURS = {
    "float32": "#0072B2",
    "mixed_float16": "#D55E00",
    "mixed_bfloat16": "#009E73",
    "float16": "#CC79A7",
    "bfloat16": "#E69F00",
}
MAX_SPAN = 8  # times: a band of ± so much less than the farthest value is too narrow to see
INK = "#010203"  # stands for the page's text colour, which replaces it in the SVG
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "figure.figsize": (5.6, 3.4),
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # each text of a chart repeats the list
    "font.size": 9.5,
    "grid.alpha": 0.25,
    "grid.color": "#808080",
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


def squeeze_far_values(axes: Axes, near: float, values: Sequence[float]) -> str:
    """Make x logarithmic beyond ±2 `near`, and say so, where `values` reach so far that ±`near` could not be seen."""
    farthest = max(map(abs, values), default=0.0)
    if farthest <= MAX_SPAN * near:
        return ""
    axes.set_xscale("symlog", linthresh=2 * near, linscale=1)
    low, high = min(*values, -2 * near) * 1.2, max(*values, 2 * near) * 1.2
    powers = range(math.floor(math.log10(near)), math.ceil(math.log10(farthest)) + 1)
    far = [step * 10.0**power for power in powers for step in (1, 3)]
    ticks = [near, *(tick for tick in far if tick > 2 * near)]
    axes.set_xlim(low, high)
    axes.set_xticks([0.0, *(tick for tick in ticks if tick <= high), *(-tick for tick in ticks if -tick >= low)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    return f"\nlogarithmic beyond ±{2 * near:g}"


def draw_svg(identifier: str, description: str, draw: Callable[[Axes], None]) -> str:
    """Return an inline SVG with a text alternative; the same bytes for the same data."""
    with plt.rc_context(STYLE | {"svg.hashsalt": identifier}):
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
