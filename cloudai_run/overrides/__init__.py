"""Overrides on the command line: parsed, checked against the schema, applied to a config tree."""

from .apply import Applied, apply, apply_recorded
from .formatting import format_value
from .messages import Naming
from .words import Override, parse

__all__ = ["Applied", "Naming", "Override", "apply", "apply_recorded", "format_value", "parse"]
