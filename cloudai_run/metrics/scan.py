"""Reads one source from its start to its end: steps by the format's parser, events beside them."""

from __future__ import annotations

import collections
import contextlib
import gc
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from cloudai_run.metrics.detect import detect
from cloudai_run.metrics.events import HEAD_BYTES, TAIL_BYTES, Event, events_in, tail_events
from cloudai_run.metrics.formats.base import Collector, Format, Parser
from cloudai_run.metrics.reader import CHUNK_BYTES, Chunk, chunks, read_lines
from cloudai_run.metrics.samples import FormatName

# Once other sources of the run have shown their format, a source is not searched further for one of its own.
_DETECT_BYTES = 4 << 20
# What is read of a pipe to find its format is kept, to be read again.
_DETECT_PIPE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one source held; `format` is None where no known step line was found."""

    format: Format | None
    found: Collector
    events: tuple[Event, ...]
    size: int


def scan(
    stream: io.RawIOBase, found: Collector, format: Format | None, expected: Format | None = None
) -> Scanned:
    """Reads a source to its end.

    Args:
        stream: a file opened without a buffer, or a `Pipe`; at its start.
        found: the collector to fill; knows the source's name and labels.
        format: the format if it is given, else it is found by content.
        expected: the format of the run's other sources, which is tried if this one's start does not show it.
    """
    if format is None:
        limit = _DETECT_PIPE_BYTES if isinstance(stream, Pipe) else None
        format = detect(stream, _DETECT_BYTES if expected else limit) or expected
    stream.seek(0)
    parser = format.new_parser() if format else None
    with _without_garbage_collection():
        return _scan(stream, found, format, parser)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Nothing that a scan makes is cyclic, and looking for cycles among many steps takes a tenth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _scan(stream: io.RawIOBase, found: Collector, format: Format | None, parser: Parser | None) -> Scanned:
    name = format.name if format else None
    events: list[Event] = []
    tail = _Tail()
    size = 0
    searched = 0
    for chunk in chunks(stream):
        if parser is not None and format is not None:
            read_lines(chunk, format.markers, parser, found)
        size = chunk.offset + chunk.end
        if chunk.offset < HEAD_BYTES:
            events.extend(events_in(chunk, name))
            searched = size
        elif isinstance(stream, Pipe):
            tail.keep(chunk)
    if parser is not None:
        parser.finish(found)
    if isinstance(stream, Pipe):
        events.extend(tail.events(name))
    else:
        events.extend(tail_events(stream, name, size, searched))
    return Scanned(format, found, tuple(events), size)


class _Tail:
    """The last chunks of a source that cannot be read again."""

    def __init__(self) -> None:
        self._kept: collections.deque[Chunk] = collections.deque(maxlen=TAIL_BYTES // CHUNK_BYTES)

    def keep(self, chunk: Chunk) -> None:
        data = bytearray(memoryview(chunk.data)[: chunk.end])
        self._kept.append(Chunk(data, chunk.end, chunk.end, chunk.offset, None, chunk.torn, chunk.last))

    def events(self, format: FormatName | None) -> list[Event]:
        return [event for chunk in self._kept for event in events_in(chunk, format)]


class Pipe(io.RawIOBase):
    """A pipe that can be read from its start once more, as long as no more than its head was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._head = bytearray()
        self._position: int | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        if self._position is not None and self._position < len(self._head):
            piece = self._head[self._position : self._position + len(buffer)]
            buffer[: len(piece)] = piece
            self._position += len(piece)
            return len(piece)
        if self._position is not None:
            self._head = bytearray()
        data = self._stream.read(min(len(buffer), CHUNK_BYTES))
        buffer[: len(data)] = data
        if self._position is None:
            self._head += data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if offset or whence:
            raise io.UnsupportedOperation("a pipe goes back to its start only")
        self._position = 0
        return 0
