"""Define the errors that a user can fix."""


class InputError(Exception):
    """Report a fault in the input; the text names the fault and its remedy.

    Commands print it without a traceback and exit with status 2. `fault` is the text without the remedy, if the remedy
    is given separately.
    """

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(f"{fault} {remedy}".rstrip())
        self.fault = fault
