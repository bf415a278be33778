"""The error that stands for a mistake of the user's."""


class UserError(ValueError):
    """A mistake of the user's: its text is the whole message (what is wrong, where, what would be right).

    The command line prints it after `error: ` on stderr and exits with 2.
    """
