"""What every format's parser shares: the candidate line, the collector it fills, numbers read strictly."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from cloudai_run.metrics.labels import NO_LABEL, Label, label_of
from cloudai_run.metrics.samples import BusTable, FormatName, Step

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# How the rest of a torn line starts: what is left of a number, then a separator.
FRAGMENT = (
    r"[ \t]*(?:(?:\d+: ?)?[0-9.eE+-]{1,16}[ \t]*(?:[|\r\n,\]]|$)"
    r"|[|,:\]_=]|[\x00-\x08\x80-\xc1\xfe\xff])"
)
_FRAGMENT = re.compile(FRAGMENT.encode("latin-1"))
_EXAMPLE_LENGTH = 200


@dataclass(slots=True)
class Line:
    """One line that holds a marker of the format.

    Attributes:
        text: ASCII text without the line end; any other byte has become U+FFFD.
        offset: byte offset of the line's start in the source.
        line: 1-based line number, None where lines are no longer counted.
        ended: a line end follows; False for a file's last, cut line.
        following: the first bytes after the line end, for telling a broken line from a whole one.
    """

    text: str
    offset: int
    line: int | None
    ended: bool
    following: bytes | bytearray

    def last_value_is_whole(self) -> bool:
        """Whether a value that stands at the very end of the line can be trusted not to be cut in two."""
        return self.ended and _FRAGMENT.match(self.following) is None


@dataclass(slots=True)
class Place:
    """Where a marker was found: in a buffer, before its line is cut out.

    Attributes:
        data: the buffer; up to `filled` it may be looked at.
        hit: the marker's place in it.
        offset: byte offset of data[0] in the source.
        line: 1-based line number, None where lines are no longer counted.
    """

    data: bytearray
    filled: int
    offset: int
    hit: int = 0
    line: int | None = None


@dataclass(slots=True)
class ProblemCount:
    """A kind of problem in one source: how often, and where it stood first."""

    count: int
    offset: int
    line: int | None
    example: str


@dataclass(slots=True)
class Collector:
    """What the parser of one source has found so far; steps are in the order of the source."""

    source: str
    rank: int | None = None
    node: str | None = None
    attempt: int = 0
    steps: list[Step] = field(default_factory=list)
    timings: list[Step] = field(default_factory=list)
    tables: list[BusTable] = field(default_factory=list)
    problems: dict[str, ProblemCount] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    checkpoint_steps: set[int] = field(default_factory=set)
    validations: dict[int, float] = field(default_factory=dict)
    losses: dict[tuple[int | None, int], float] = field(default_factory=dict)
    total_steps: int | None = None
    last_of_all: bool = False
    profiled: tuple[int, int] | None = None
    lines_used: int = 0
    _labels: dict[str, Label] = field(default_factory=dict)

    def problem(self, kind: str, line: Line, text: str | None = None) -> None:
        """Counts a line (or a part of one) that was not used as it stands."""
        seen = self.problems.get(kind)
        if seen is None:
            example = (line.text if text is None else text).strip()[:_EXAMPLE_LENGTH]
            self.problems[kind] = ProblemCount(1, line.offset, line.line, example)
        else:
            seen.count += 1

    def add(
        self, fields: dict[str, float | int | str | None], prefix: str, offset: int, line: int | None
    ) -> None:
        """Adds the step with these fields, printed by whom the prefix names."""
        label = self.label(prefix) if prefix else NO_LABEL
        rank = self.rank if label.rank is None else label.rank
        node = label.node or self.node
        fields["source"] = self.source
        fields["offset"] = offset
        # The defaults need not be said: most steps are of the first attempt, and far into a large file.
        if self.attempt:
            fields["attempt"] = self.attempt
        if line is not None:
            fields["line"] = line
        if rank is not None:
            fields["rank"] = rank
        if node is not None:
            fields["node"] = node
        self.steps.append(Step.of(fields))

    def label(self, prefix: str) -> Label:
        """Returns the rank and node that the text before a marker names."""
        if not prefix:
            return NO_LABEL
        found = self._labels.get(prefix)
        if found is None:
            found = label_of(prefix)
            if len(self._labels) < 4096:
                self._labels[prefix] = found
        return found


class Parser(Protocol):
    """Reads one source line by line."""

    def quick(self, at: Place, out: Collector) -> int:
        """Reads the line at a marker where it stands in the buffer, if it can.

        Returns:
            Where the line ends (its line end not included), or -1 if it is to be read with care.
        """
        ...

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one candidate line into the collector."""
        ...

    def finish(self, out: Collector) -> None:
        """Called once, after the last line."""
        ...


class LineParser:
    """A parser that needs no memory: each line stands for itself."""

    def __init__(self, parse: Callable[[Line, Collector], None]) -> None:
        self._parse = parse

    def quick(self, at: Place, out: Collector) -> int:
        """Reads nothing."""
        return -1

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one candidate line into the collector."""
        self._parse(line, out)

    def finish(self, out: Collector) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True)
class Format:
    """A log format: how its lines are found, recognised and read.

    Attributes:
        title: the name that users know it by.
        signs: the format is looked for where one of these stands.
        recognise: whether a line with a sign is really of this format.
        markers: a line that matters holds one of these.
        new_parser: makes a parser for one source.
        example: what such a line looks like, for the message about an unknown format.
    """

    name: FormatName
    title: str
    signs: tuple[bytes, ...]
    recognise: Callable[[str], bool]
    markers: tuple[bytes, ...]
    new_parser: Callable[[], Parser]
    example: str


def without_ansi(text: str) -> str:
    """Returns the text without terminal escape sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def number(text: str) -> float | None:
    """Returns the float that the whole text spells (nan and inf included), or None."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def whole_number(text: str) -> int | None:
    """Returns the non-negative integer that the text spells ("12", "12.00", "1.2e+01"), or None."""
    if text.isdigit():
        return int(text)
    value = number(text)
    if value is None or not 0 <= value < 1e15 or value != int(value):
        return None
    return int(value)


def positive(value: float | None) -> float | None:
    """Returns the value if it is finite and above zero, else None: zero stands for `not measured` in logs."""
    return value if value is not None and 0 < value < float("inf") else None
