"""The error that an executor raises for a mistake in its configuration."""


class ExecutorError(ValueError):
    """An executor cannot run as configured: its text is the whole message for the user."""
