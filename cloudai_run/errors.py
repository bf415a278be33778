"""The errors that end a command with a message and no traceback."""


class UserError(ValueError):
    """A mistake of the user's: its text is the whole message (what is wrong, where, what would be right).

    The command line prints it after `error: ` on stderr and exits with 2.
    """


class RunFailed(Exception):
    """A run, a report or a gate failed though nobody made a mistake in the command; exit code 1."""
