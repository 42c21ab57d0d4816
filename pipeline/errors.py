"""Define the error for faults that a user can fix."""


class InputError(Exception):
    """Report a fault in the input. The message names the fault and its remedy.

    Commands print the message without a traceback and exit with status 2. The attribute `fault` holds the message
    without the argument `remedy`.
    """

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(f"{fault} {remedy}".rstrip())
        self.fault = fault
