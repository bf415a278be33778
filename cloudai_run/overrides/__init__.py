"""Overrides on the command line: parsed, checked against the schema, applied to a config tree."""
