"""Write to a terminal, and leave it as it was however the process ends."""

import sys

from rich.console import Console


class Terminal(Console):
    """Write to standard output; live lines only where that is a terminal, and never without a cursor.

    A process that is killed could not bring a hidden cursor back.
    """

    def __init__(self) -> None:
        super().__init__(force_terminal=sys.stdout.isatty())  # FORCE_COLOR makes no terminal of a file

    def show_cursor(self, show: bool = True) -> bool:
        return False
