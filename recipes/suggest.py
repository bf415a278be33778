"""Suggestions for a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Returns up to `limit` of the known names that lie nearest to `name`, nearest first."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    return [
        by_folded[match] for match in difflib.get_close_matches(name.lower(), by_folded, n=limit, cutoff=0.6)
    ]
