"""The version of this project; pyproject.toml reads it."""

VERSION = "0.1.0"
