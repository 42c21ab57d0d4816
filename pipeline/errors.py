"""Errors that a user can put right."""


class InputError(Exception):
    """A fault in what the project was given; its text names the fault and the remedy.

    Commands print it without a traceback and exit with status 2.
    """


class UnfinishedRunError(Exception):
    """A run that was told to end has done so after a whole epoch; the same command goes on from there."""
