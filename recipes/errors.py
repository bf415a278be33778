"""The error that a recipe raises for a mistake in its configuration."""


class RecipeError(ValueError):
    """A recipe cannot run as configured: its text is the whole message for the user."""
