"""Chooses the parser of a log by its content."""

from __future__ import annotations

import io

from cloudai_run.metrics.formats import (
    maxtext,
    megatron_bridge,
    megatron_lm,
    nccl_tests,
    nemo1,
    nemo2,
    nemo2_dllogger,
    paxml,
)
from cloudai_run.metrics.formats.base import Format, without_ansi
from cloudai_run.metrics.reader import Chunk, chunks, lines_with
from cloudai_run.metrics.samples import FormatName

# Where one line could be taken for two formats, the more particular one stands first.
FORMATS: dict[FormatName, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        nemo2_dllogger,
        nemo2,
        megatron_bridge,
        megatron_lm,
        maxtext,
        paxml,
        nccl_tests,
        nemo1,
    )
}

# What a log of the format holds long before its first step: a run that never got there is still known.
_HINTS: tuple[tuple[bytes, FormatName], ...] = ((b"[PAX STATUS]", "paxml"), (b"[NeMo ", "nemo2"))


def format_in(chunk: Chunk) -> Format | None:
    """Returns the format of the first line in the chunk that any format recognises, None if there is none."""
    best: tuple[int, int] | None = None
    found: Format | None = None
    for order, candidate in enumerate(FORMATS.values()):
        for line in lines_with(chunk, candidate.signs):
            if best is not None and (line.offset, order) > best:
                break
            if candidate.recognise(without_ansi(line.text)):
                best, found = (line.offset, order), candidate
                break
    if found is megatron_lm.FORMAT and _holds(chunk, megatron_bridge.FORMAT):
        return megatron_bridge.FORMAT
    return found


def _holds(chunk: Chunk, wanted: Format) -> bool:
    """Whether the chunk holds a line of the format; Megatron-Bridge prints Megatron-LM's lines too."""
    return any(wanted.recognise(without_ansi(line.text)) for line in lines_with(chunk, wanted.signs))


def detect(stream: io.RawIOBase, limit: int | None = None) -> Format | None:
    """Returns the format of a source, read from where it stands; `limit` bounds the bytes looked at."""
    hinted: Format | None = None
    for chunk in chunks(stream):
        if (found := format_in(chunk)) is not None:
            return found
        if chunk.offset == 0:
            hints = (FORMATS[name] for text, name in _HINTS if chunk.data.find(text, 0, chunk.end) >= 0)
            hinted = next(hints, None)
        if limit is not None and chunk.offset >= limit:
            break
    return hinted
