"""Align tables for a terminal or a file."""

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with the first column aligned left and the others aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], num_names: int) -> None:
    """Print `rows` under the names of their columns.

    If the output is not a terminal, a line has room for as many characters as the variable COLUMNS says, or else 80.

    Args:
        num_names: the number of columns, counted from the first, that hold names. Names are aligned left. If there is
            too little room, names are wrapped, and words of more than 12 characters may be broken. The other columns
            are aligned right, and their cells are not wrapped.
    """
    texts = [[str(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        is_name = number < num_names
        longest = max((len(word) for row in texts for word in row[number].split()), default=0)
        table.add_column(
            Text(column),
            justify="left" if is_name else "right",
            no_wrap=not is_name,
            overflow="fold",
            min_width=min(longest, 12),
        )
    for row in texts:
        table.add_row(*map(Text, row))
    Console(force_terminal=sys.stdout.isatty()).print(table)  # a file is no terminal, even with FORCE_COLOR
