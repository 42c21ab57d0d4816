"""Define the errors that a user can fix."""


class InputError(Exception):
    """Report a fault in the input; the text names the fault and its remedy.

    Commands print it without a traceback and exit with status 2.
    """
