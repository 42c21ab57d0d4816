"""Define the errors that a user can fix."""


class InputError(Exception):
    """Report a fault in the input; the text names the fault and its remedy.

    Commands print the text without a traceback and exit with status 2. If the caller passes `remedy`, `fault` is
    the text without it.
    """

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(f"{fault} {remedy}".rstrip())
        self.fault = fault
