"""Overrides on the command line: parsed, checked against the schema, applied to a config tree."""

from .apply import Applied, apply, apply_recorded
from .complete import complete, complete_word
from .fields import check_fields, fields_of, type_of
from .formatting import format_value
from .messages import Naming
from .run_words import Plugin, RunWords, split_run
from .words import Override, parse

__all__ = [
    "Applied",
    "Naming",
    "Override",
    "Plugin",
    "RunWords",
    "apply",
    "apply_recorded",
    "check_fields",
    "complete",
    "complete_word",
    "fields_of",
    "format_value",
    "parse",
    "split_run",
    "type_of",
]
