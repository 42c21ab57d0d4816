"""Arrange what was compiled for hardware that is not here: a matrix of targets by numbers, and its figure."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from pipeline.compiled.answers import (
    NUMBERS,
    in_16_bits,
    memory_ratio,
    place_words,
    rounded_to_16_bits,
)
from pipeline.compiled.schema import CompiledProgram, CompiledTarget
from pipeline.compiled.targets import GIB
from pipeline.numbers import listed
from pipeline.report.charts import Chart
from pipeline.report.drawing import INK, POLICY_COLOURS, draw_svg
from pipeline.report.figures import text_alternative

# A target, a kind of numbers, and its programs at B and at 2B.
_Row = tuple[CompiledTarget, str, Sequence[CompiledProgram | None]]
COLOURS = POLICY_COLOURS | {"float32_default": "#56B4E9"}


def hardware_elsewhere(compiled: Sequence[CompiledTarget]) -> dict[str, Any] | None:
    """Return everything that the section shows; None where nothing was compiled."""
    if not compiled:
        return None
    steps = {(p.benchmark, p.batch_size) for made in compiled for p in made.programs if p.numbers == "float32"}
    batches = {name: sorted(size for each, size in steps if each == name) for name, _ in steps}
    return {
        "numbers": NUMBERS,
        "matrices": {name: _matrix(compiled, name, sizes[0]) for name, sizes in sorted(batches.items())},
        "tpus": [row for made in compiled if made.kind == "tpu" and (row := _tpu(made))["rounded"]],
        "versions": {key: value for made in compiled for key, value in made.versions.items()},
        "seconds": median(p.seconds for made in compiled for p in made.programs if p.memory),
        "refusals": {
            f"{made.title}, {p.benchmark} in {NUMBERS[p.numbers]}": p.refusal.words
            for made in compiled
            for p in made.programs
            if p.refusal and not p.refusal.for_memory
        },
    }


def _matrix(compiled: Sequence[CompiledTarget], benchmark: str, batch_size: int) -> dict[str, Any]:
    """Return a row a target and numbers of `benchmark` at B and at 2B, and the figure of their memory."""
    cells = [
        (made, numbers, [made.find(benchmark, numbers, size) for size in (batch_size, 2 * batch_size)])
        for made in compiled
        for numbers in NUMBERS
    ]
    cells = [cell for cell in cells if any(cell[2])]
    rows = [
        {
            "target": made.title,
            "memory_bytes": made.memory_bytes,
            "numbers": numbers,
            "programs": [_said(made, program) for program in programs],
            "ratio": memory_ratio(made, benchmark, numbers, batch_size),
            "in_16_bits": in_16_bits(programs[0]) if programs[0] and programs[0].memory else None,
            "wide": _wide(programs[0]),
            "num_wide_left_out": programs[0].num_wide_left_out if programs[0] else 0,
        }
        for made, numbers, programs in cells
    ]
    return {"batch_size": batch_size, "rows": rows, "chart": _chart(benchmark, cells)}


def _wide(program: CompiledProgram | None) -> Counter[str]:
    """Count the operations in float32 by their place in the model; none where none is in 16 bits."""
    places: Counter[str] = Counter()
    if program and in_16_bits(program).num_chosen:
        for place, count in program.wide.items():
            places[place_words(place)] += count
    return places


def _said(made: CompiledTarget, program: CompiledProgram | None) -> str:
    if program is None:
        return "–"
    fits = made.fits(program)
    if program.memory is None:
        return "does not fit" if fits is False else "refused"
    peak = f" (peak {program.memory.peak / 2**20:,.0f})" if program.memory.peak else ""
    return f"{program.memory.total / 2**20:,.0f}{peak}" + ("" if fits else ", does not fit")


def _chart(benchmark: str, cells: Sequence[_Row]) -> Chart:
    """Draw a row a target: memory by numbers, filled at B and hollow at 2B, against the memory of the device."""
    titles = list(dict.fromkeys(made.title for made, *_ in cells))

    def draw(axes: Axes) -> None:
        for row, title in enumerate(titles):
            of_target = [cell for cell in cells if cell[0].title == title]
            capacity = of_target[0][0].memory_bytes / GIB
            axes.plot([capacity, capacity], [row - 0.4, row + 0.4], color=INK, linewidth=2.5)
            for place, (_, numbers, programs) in enumerate(of_target):
                height = row + (place - (len(of_target) - 1) / 2) * 0.18
                for program, face in zip(programs, (COLOURS[numbers], "none"), strict=True):
                    if program and program.memory:
                        axes.plot(
                            program.memory.total / GIB,
                            height,
                            marker="o",
                            markersize=5,
                            color=COLOURS[numbers],
                            markerfacecolor=face,
                        )
        axes.set(
            xscale="log", xlabel="GiB (filled: batch B, hollow: 2B; bar: the device's memory)", title="A step's memory"
        )
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(titles)), titles)
        axes.set_ylim(len(titles) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        for numbers in dict.fromkeys(numbers for _, numbers, _ in cells):
            axes.plot([], [], marker="o", linestyle="none", color=COLOURS[numbers], label=NUMBERS[numbers])
        axes.figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)

    rows = [
        [made.title, NUMBERS[numbers], *(round(p.memory.total / GIB, 3) if p and p.memory else "–" for p in programs)]
        for made, numbers, programs in cells
    ]
    found = [_finding([cell for cell in cells if cell[0].title == title]) for title in titles]
    described = text_alternative(f"Memory of a step of {benchmark} on each target, as compiled", found)
    return Chart(
        draw_svg(f"{benchmark}-elsewhere", described, draw), ["target", "numbers", "GiB at B", "GiB at 2B"], rows
    )


def _finding(cells: Sequence[_Row]) -> str:
    """Say what is to be seen of a target: the least and the most of its memory that a step takes at B, and at 2B."""
    made = cells[0][0]
    told = []
    for index, size in enumerate(("B", "2B")):
        steps = [(programs[index], numbers) for _, numbers, programs in cells if programs[index]]
        needed = sorted((p.memory.total / GIB, NUMBERS[numbers]) for p, numbers in steps if p and p.memory)
        if needed:
            (least, of_least), (most, of_most) = needed[0], needed[-1]
            told.append(f"at {size} from {least:.3g} GiB in {of_least} to {most:.3g} GiB in {of_most}")
        overflowing = [NUMBERS[numbers] for p, numbers in steps if p and made.fits(p) is False]
        if overflowing:
            told.append(f"at {size} {listed(overflowing)} does not fit")
    return f"{made.title}: {', '.join(told) or 'nothing was compiled'}"


def _tpu(made: CompiledTarget) -> dict[str, Any]:
    """Say how a TPU multiplies float32 unless it is asked for the highest precision."""
    steps = [p for p in made.programs if p.numbers == "float32_default" and p.memory]
    return {
        "target": made.title,
        "rounded": [(step.benchmark, step.batch_size, rounded_to_16_bits(step)) for step in steps],
    }
