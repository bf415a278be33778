"""Lines that are no steps but tell how a run went: errors, checkpoints, validations, end markers.

They are looked for in the first and the last part of a source only: each further marker costs a pass over the
bytes, and what matters here stands near the start (set-up errors, the first checkpoints) or the end.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cloudai_run.metrics.failures import FAILURE_MARKERS, failure_of
from cloudai_run.metrics.formats.base import Line, without_ansi
from cloudai_run.metrics.labels import label_of
from cloudai_run.metrics.reader import Chunk, chunks, lines_with
from cloudai_run.metrics.samples import FormatName

HEAD_BYTES = 4 << 20
TAIL_BYTES = 4 << 20

EventKind = Literal["failure", "checkpoint", "validation", "end", "max_steps", "process"]


@dataclass(frozen=True, slots=True)
class Event:
    """One such line.

    Attributes:
        number: the step, rank or count that the line holds, None if it holds none.
        failure: key into `FAILURES` for failures.
        thread: the absl thread id of the line, which tells processes apart in a mixed log.
    """

    kind: EventKind
    offset: int
    line: int | None
    text: str
    rank: int | None
    number: int | None = None
    failure: str = ""
    thread: str = ""


_NEMO = (b"heckpoint", b"Validation: ", b"stopped: `max_", b"'max_steps' (")
_MEGATRON = (b"training is done", b"exiting program at iteration")
_MAXTEXT = (b"eval metrics after", b"saved a checkpoint at step ")
_PAXML = (
    *(b"[PAX STATUS]: Saving checkpoint", b"Starting eval_step", b"Elapsed time for <_main>"),
    *(b"num_train_steps :", b"JAX process: "),
)
# Each further marker is a pass over the bytes, so each format has its own.
_MARKERS: dict[FormatName, tuple[bytes, ...]] = {
    "nemo2": _NEMO,
    "nemo2_dllogger": _NEMO,
    "nemo1": _NEMO,
    "megatron_lm": _MEGATRON,
    "megatron_bridge": _MEGATRON,
    "maxtext": _MAXTEXT,
    "paxml": _PAXML,
    "nccl_tests": (),
}
_ALL_MARKERS = FAILURE_MARKERS + _NEMO + _MEGATRON + _MAXTEXT + _PAXML

_ABSL = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+(\d+) ")

_OTHERS: tuple[tuple[EventKind, re.Pattern[str]], ...] = (
    # Megatron's own lines hold the step's number: its parser reads them.
    ("checkpoint", re.compile(r"Scheduled async checkpoint save|Global Checkpoint Save :")),
    ("checkpoint", re.compile(r"Saving checkpoint (?:at step|for final)|Saved checkpoint")),
    ("checkpoint", re.compile(r"saved a checkpoint at step (\d+)")),
    ("validation", re.compile(r"Validation: iteration 1/")),
    ("validation", re.compile(r"Starting eval_step\(\)|eval metrics after step: (\d+)")),
    ("end", re.compile(r"`Trainer\.fit` stopped: `max_(?:steps|epochs)=(\d+)` reached")),
    ("end", re.compile(r"E2E time: Elapsed time for <_main>|after training is done")),
    ("end", re.compile(r"exiting program at iteration\s+(\d+)")),
    ("max_steps", re.compile(r"train\.num_train_steps : (\d+)|Trainer's 'max_steps' \((\d+)\)")),
    ("process", re.compile(r"JAX process: (\d+) / \d+")),
)


def event_of(line: Line) -> Event | None:
    """Returns what the line tells, None if nothing that is known."""
    text = without_ansi(line.text)
    label = label_of(text)
    absl = _ABSL.search(text)
    thread = absl[1] if absl else ""
    short = text.strip()[:300]
    for kind, pattern in _OTHERS:
        if match := pattern.search(text):
            digits = next((group for group in match.groups() if group), None)
            number = int(digits) if digits and len(digits) < 16 else None
            return Event(kind, line.offset, line.line, short, label.rank, number, thread=thread)
    name = failure_of(text)
    if name is None:
        return None
    return Event("failure", line.offset, line.line, short, label.rank, failure=name, thread=thread)


def events_in(chunk: Chunk, format: FormatName | None) -> Iterator[Event]:
    """Yields the chunk's events in order; of any format if it is unknown."""
    markers = _ALL_MARKERS if format is None else FAILURE_MARKERS + _MARKERS[format]
    for line in lines_with(chunk, markers):
        if (event := event_of(line)) is not None:
            yield event


def tail_events(stream: io.RawIOBase, format: FormatName | None, size: int, searched: int) -> list[Event]:
    """Returns the events in the last part of a seekable source whose first `searched` bytes are done."""
    start = max(searched, size - TAIL_BYTES)
    if start >= size:
        return []
    stream.seek(start)
    found: list[Event] = []
    for chunk in chunks(stream, lines_before=None, offset=start):
        found.extend(events_in(chunk, format))
    return found
