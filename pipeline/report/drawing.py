"""Draw a chart as SVG. Text and lines take the colour of the page, so that charts follow light and dark mode."""

import html
import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG

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
