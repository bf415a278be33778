"""Overrides on the command line: parsed, checked against the schema, applied to a config tree."""

from cloudai_run.overrides.apply import Applied, apply, apply_recorded
from cloudai_run.overrides.check import check_tree
from cloudai_run.overrides.complete import complete, complete_word
from cloudai_run.overrides.fields import check_fields, fields_of, type_of
from cloudai_run.overrides.formatting import format_value
from cloudai_run.overrides.messages import Naming
from cloudai_run.overrides.run_words import Plugin, RunWords, split_run
from cloudai_run.overrides.words import Override, parse

__all__ = [
    "Applied",
    "Naming",
    "Override",
    "Plugin",
    "RunWords",
    "apply",
    "apply_recorded",
    "check_fields",
    "check_tree",
    "complete",
    "complete_word",
    "fields_of",
    "format_value",
    "parse",
    "split_run",
    "type_of",
]
