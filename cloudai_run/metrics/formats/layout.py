"""One pattern for a whole line, made from an earlier line: nearly all step lines of a log are laid out alike.

A line that fits is read where it stands in the buffer, without being cut out, split and looked up field by
field; one that does not fit is read with care, and so nothing is decided here about broken lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cloudai_run.metrics.formats.base import FRAGMENT, Place, whole_number

# What a whole line is followed by, where its last value has nothing else behind it.
LINE_END = rf"(?=\r?\n(?!{FRAGMENT}))"
_NUMBER = r"([0-9][0-9.eE+-]*)"
_PREFIX_BYTES = 200
_NEWLINE = 10
_ODD = re.compile(r"[\r|\x1b]")

Fields = dict[str, float | int | str | None]
Known = Mapping[str, tuple[str, Callable[[str], float | int | None]]]


class Quick(NamedTuple):
    """A line that was read: its fields, what the head's own groups hold, where the line starts and ends."""

    fields: Fields
    head: tuple[bytes, ...]
    prefix: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a line from its marker on.

    Attributes:
        pattern: groups are the head's, then one number for each of `names`.
        names: fields of `Step`.
        readers: int or float for each of them.
    """

    pattern: re.Pattern[bytes]
    names: tuple[str, ...]
    readers: tuple[Callable[[bytes], float | int], ...]

    @classmethod
    def of(cls, head: str, keys: Sequence[str], known: Known, item: str, end: str) -> Layout | None:
        """Returns the layout of a line with these keys, None if it cannot be one pattern.

        Args:
            head: pattern of the line's start, the marker included.
            keys: all of the line's keys in order.
            known: the field and reader of each key that matters.
            item: pattern of one key with its value; `KEY` and `VALUE` stand for them.
            end: pattern behind the last value.
        """
        if not "".join(keys).isascii():
            return None
        parts = [
            item.replace("KEY", re.escape(key)).replace("VALUE", _NUMBER if key in known else r"[^\s|,]+")
            for key in keys
        ]
        found = [known[key] for key in keys if key in known]
        return cls(
            re.compile("".join((head, *parts, end)).encode("latin-1")),
            tuple(name for name, _ in found),
            tuple(int if read is whole_number else float for _, read in found),
        )

    def read(self, at: Place) -> Quick | None:
        """Returns the line at a marker, None if it is laid out otherwise."""
        match = self.pattern.match(at.data, at.hit, at.filled)
        if match is None:
            return None
        hit, data = at.hit, at.data
        start, prefix = hit, ""
        if hit and data[hit - 1] != _NEWLINE:
            start = data.rfind(b"\n", max(0, hit - _PREFIX_BYTES), hit) + 1
            prefix = data[start:hit].decode("ascii", "replace")
            # Without a line's start in sight, or with another one glued before it, it is for careful reading.
            if (start == 0 and hit > _PREFIX_BYTES) or _ODD.search(prefix):
                return None
        groups = match.groups()
        texts = groups[-len(self.names) :]
        try:
            values = [read(text) for read, text in zip(self.readers, texts, strict=True)]
        except ValueError:
            return None
        fields: Fields = dict(zip(self.names, values, strict=True))
        return Quick(fields, groups[: -len(self.names)], prefix, start, match.end())
