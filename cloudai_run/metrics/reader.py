"""Finds the few lines that matter in logs of any size: chunked reads, no copy of what is noise.

A log of a large run is mostly noise, and looking at each line in Python costs twice the search itself. So a
source is read in chunks that end at a line end, `bytearray.find` looks for the markers, and only the lines
around hits are cut out and decoded. Memory stays at a few chunks, whatever the file's size (a mapped file
would count as resident memory).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cloudai_run.metrics.formats.base import Collector, Line, Parser, Place

CHUNK_BYTES = 1 << 20
# Lines are counted this far only, since counting costs as much as searching.
COUNTED_BYTES = 8 << 20
# At least this many bytes of the next line are in the buffer when a line is handed on.
_LOOKAHEAD = 48


@dataclass(slots=True)
class Chunk:
    """A piece of a source that starts at a line's start.

    Attributes:
        data: the buffer; it is filled anew for the next chunk.
        end: the piece is data[:end]; what follows up to `filled` is only looked at, never searched.
        offset: byte offset of data[0] in the source.
        lines_before: number of line ends before data[0], None once they are no longer counted.
        torn: the piece ends inside a line that is longer than the buffer.
        last: nothing follows.
    """

    data: bytearray
    end: int
    filled: int
    offset: int
    lines_before: int | None
    torn: bool
    last: bool


def chunks(
    stream: io.RawIOBase, size: int = CHUNK_BYTES, *, offset: int = 0, lines_before: int | None = 0
) -> Iterator[Chunk]:
    """Yields the source in pieces of at most `size` bytes that end at line ends; `\\r` ends a line too.

    `offset` and `lines_before` say where the stream stands, for one that does not start at its beginning.
    """
    data = bytearray(size)
    view = memoryview(data)
    kept = 0
    lines = lines_before
    last = False
    while not last:
        filled = kept
        while filled < size and not last:
            got = stream.readinto(view[filled:])
            filled += got or 0
            last = not got
        end = filled if last else _cut(data, filled)
        torn = end == 0
        end = end or filled
        yield Chunk(data, end, filled, offset, lines, torn, last)
        if lines is not None:
            lines += data.count(b"\n", 0, end)
        offset += end
        if offset > COUNTED_BYTES:
            lines = None
        kept = filled - end
        data[:kept] = data[end:filled]


def _cut(data: bytearray, filled: int) -> int:
    """Returns where the last line ends that has enough look-ahead behind it; 0 if there is none."""
    limit = filled - _LOOKAHEAD
    cut = data.rfind(b"\n", 0, limit) + 1
    # Progress bars write megabytes without a newline, only carriage returns.
    return cut or data.rfind(b"\r", 0, limit) + 1


def read_lines(chunk: Chunk, markers: Sequence[bytes], parser: Parser, found: Collector) -> None:
    """Hands the lines that hold one of the markers to the parser, in order and each once."""
    if len(markers) > 1:
        for line in lines_with(chunk, markers):
            parser(line, found)
        return
    at = Place(chunk.data, chunk.filled, chunk.offset)
    find, count, end, lines, counted = chunk.data.find, chunk.data.count, chunk.end, chunk.lines_before, 0
    (marker,) = markers
    floor = 0
    hit = find(marker, 0, end)
    while hit >= 0:
        at.hit = hit
        if lines is not None:
            lines += count(b"\n", counted, hit)
            at.line = lines + 1
            counted = hit
        stop = parser.quick(at, found)
        if stop < 0:
            start, stop = _span(chunk, hit, floor)
            parser(_line(chunk, start, stop, at.line), found)
        floor = stop + 1
        hit = find(marker, floor, end)


def lines_with(chunk: Chunk, markers: Sequence[bytes]) -> Iterator[Line]:
    """Yields, in order and each once, the lines of the chunk that hold one of the markers."""
    spans: dict[int, int] = {}
    for marker in markers:
        spans.update(_spans(chunk, marker))
    lines, counted = chunk.lines_before, 0
    for start, stop in sorted(spans.items()):
        if lines is not None:
            lines += chunk.data.count(b"\n", counted, start)
            counted = start
        yield _line(chunk, start, stop, None if lines is None else lines + 1)


def _line(chunk: Chunk, start: int, stop: int, number: int | None) -> Line:
    data = chunk.data
    # What follows begins behind the line end, which is two bytes if it is `\r\n`.
    after = stop + 2 if data.startswith(b"\r\n", stop) else stop + 1
    return Line(
        text=data[start:stop].decode("ascii", "replace"),
        offset=chunk.offset + start,
        line=number,
        ended=stop < chunk.end,
        following=data[after : min(after + _LOOKAHEAD, chunk.filled)],
    )


def _spans(chunk: Chunk, marker: bytes) -> Iterator[tuple[int, int]]:
    """Yields (start, stop) of each line with the marker, without its line end."""
    floor = 0
    hit = chunk.data.find(marker, 0, chunk.end)
    while hit >= 0:
        start, stop = _span(chunk, hit, floor)
        yield start, stop
        floor = min(stop + 1, chunk.end)
        hit = chunk.data.find(marker, floor, chunk.end)


def _span(chunk: Chunk, hit: int, floor: int) -> tuple[int, int]:
    """Returns (start, stop) of the line around a place, without its line end, `floor` or later."""
    data, end = chunk.data, chunk.end
    start = data.rfind(b"\n", floor, hit) + 1 or floor
    start = data.rfind(b"\r", start, hit) + 1 or start
    stop = data.find(b"\n", hit, end)
    if stop < 0:
        stop = end
    carriage = data.find(b"\r", hit, stop)
    return start, stop if carriage < 0 else carriage
