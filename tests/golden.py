"""Whole-file comparison with a golden file."""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(path: Path, text: str) -> None:
    """Asserts that `text` equals the golden file; UPDATE_GOLDEN=1 rewrites it, and a missing one fails."""
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"no golden file {path}: look at the text, then run with UPDATE_GOLDEN=1"
    assert text == path.read_text(encoding="utf-8"), f"differs from {path} (UPDATE_GOLDEN=1 rewrites it)"
