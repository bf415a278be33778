"""How values, paths and names are written in messages: always one printable line of bounded length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Path = tuple[str | int, ...]


def shown(text: str, limit: int = 60) -> str:
    """Returns `text` with its unprintable characters escaped, cut to `limit` characters."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def join_path(path: Iterable[str | int]) -> str:
    """Returns a path as it is typed: `("trainer", "callbacks", 0)` is `trainer.callbacks[0]`."""
    parts: list[str] = []
    for segment in path:
        if isinstance(segment, int):
            parts.append(f"[{segment}]")
        else:
            parts.append(f".{segment}" if parts else segment)
    return "".join(parts)


def some_of(names: Sequence[str], width: int = 90) -> str:
    """Returns as many of the names as fit into `width` characters, and `...` for the others."""
    taken: list[str] = []
    for name in names:
        if taken and len(", ".join([*taken, name])) > width:
            return ", ".join([*taken, "..."])
        taken.append(name)
    return ", ".join(taken)
