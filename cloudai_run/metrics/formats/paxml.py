"""PAXML: `[PAX STATUS]: train_step() took 7.58 seconds.` on each rank, for a process's first 20 steps only.

The line holds no step number. `Beginning step` lines (the first five of a process) give it; the others are
counted on from there, in the order of absl's time stamps, so that a mixed-up log is put in order. Losses
stand on other lines (`[PAX STATUS] step_i: 1900, training loss: 3.47e-05`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cloudai_run.metrics.formats.base import Collector, Format, Line, Place, number, positive, without_ansi
from cloudai_run.metrics.samples import Step

PRINTED_STEPS = 20
# A process that no label names: the thread id stands in until its rank is known.
THREAD = "thread "
ORDINALS = "PAXML prints no step numbers: they are counted from its `Beginning step` lines"

_TOOK = re.compile(r"train_step\(\) (?:took|in) ([0-9.eE+-]+|nan|inf) seconds\.")
_TOOK_MARK = re.compile(r"train_step\(\) (?:took|in) ")
_BEGIN = re.compile(r"\[PAX STATUS\]: Beginning step `(\d+)`")
_LOSS = re.compile(r"\[PAX STATUS\] step_i: (\d+), [^:]*loss: ([0-9.eE+-]+|nan|-?inf)(?=\s|,|$)")
_LOOP = re.compile(r"\[PAX STATUS\]: Starting training loop\.")
_ABSL = re.compile(r"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+)\s+(\d+) ")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line that matters for numbering: a time (`step`), a `Beginning step` number, or a process's start."""

    stamp: str
    step: Step | None = None
    begins: int | None = None


class PaxmlParser:
    """Reads one source; counts each process's steps, told apart by label or by absl's thread id."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int | None, str], list[_Entry]] = {}

    def quick(self, at: Place, out: Collector) -> int:
        """Reads nothing: a process prints 20 times at most."""
        return -1

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one candidate line."""
        text = without_ansi(line.text)
        if "train_step() " in text:
            self._took(line, out, text)
        elif "step_i: " in text:
            self._loss(line, out, text)
        elif found := _BEGIN.search(text):
            self._enter(text[: found.start()], out, begins=int(found[1]))
        elif found := _LOOP.search(text):
            self._enter(text[: found.start()], out)

    def finish(self, out: Collector) -> None:
        """Numbers the steps of each process."""
        for entries in self._entries.values():
            if all(entry.stamp for entry in entries):
                # Time stamps are to the microsecond: the same one again is the same line again.
                once = {(entry.stamp, entry.step is None, entry.begins): entry for entry in entries}
                entries = sorted(once.values(), key=lambda entry: entry.stamp)
            out.steps.extend(_numbered(entries))
        out.steps.sort(key=lambda step: step.offset)
        if out.steps:
            out.notes[ORDINALS] = None

    def _enter(
        self, prefix: str, out: Collector, *, step: Step | None = None, begins: int | None = None
    ) -> None:
        stamp, thread = _stamp_and_thread(prefix)
        process = (out.label(prefix).rank, thread)
        self._entries.setdefault(process, []).append(_Entry(stamp, step, begins))

    def _took(self, line: Line, out: Collector, text: str) -> None:
        found = list(_TOOK.finditer(text))
        if len(found) != len(_TOOK_MARK.findall(text)):
            out.problem("step lines not understood", line, text)
        for match in found:
            step_time = positive(number(match[1]))
            if step_time is None:
                out.problem("step lines without a usable step time", line, text)
            prefix = text[: match.start()]
            label = out.label(prefix)
            _, thread = _stamp_and_thread(prefix)
            rank = out.rank if label.rank is None else label.rank
            node = label.node or out.node
            step = Step(
                step=0,
                step_time_s=step_time,
                rank=rank,
                node=f"{THREAD}{thread}" if thread and rank is None else node,
                attempt=out.attempt,
                source=out.source,
                offset=line.offset,
                line=line.line,
            )
            self._enter(prefix, out, step=step)

    def _loss(self, line: Line, out: Collector, text: str) -> None:
        found = _LOSS.search(text)
        at_end = found is not None and not text[found.end() :].strip()
        value = number(found[2]) if found and (not at_end or line.last_value_is_whole()) else None
        if found is None or value is None:
            out.problem("loss lines not understood", line, text)
            return
        out.losses[(out.label(text[: found.start()]).rank, int(found[1]))] = value


def _stamp_and_thread(prefix: str) -> tuple[str, str]:
    """Returns absl's time stamp and thread id, empty where there are none; of several (a glued line) the last."""
    found = _ABSL.findall(prefix)
    return found[-1] if found else ("", "")


def _numbered(entries: Sequence[_Entry]) -> list[Step]:
    """Returns one process's steps with their numbers and attempts (a further `Starting training loop`)."""
    steps: list[Step] = []
    start, attempt, started = 0, 0, False
    for position, entry in enumerate(entries):
        if entry.step is None and entry.begins is None:
            attempt += started
            started = True
            start = _first_number(entries[position + 1 :])
        elif entry.begins is not None:
            # Lines may be lost, never be too many: a step number only ever jumps forward.
            start = max(start, entry.begins)
        if entry.step is not None:
            if position == 0:
                start = _first_number(entries)
            number_of_step = start
            start += 1
            started = True
            steps.append(replace(entry.step, step=number_of_step, attempt=entry.step.attempt + attempt))
    return steps


def _first_number(entries: Sequence[_Entry]) -> int:
    """Returns the number of the first time in `entries`, from the first `Beginning step` line behind it."""
    for times, entry in enumerate(entries):
        if entry.begins is not None:
            return max(0, entry.begins - times)
        if entry.step is None:
            return 0
    return 0


FORMAT = Format(
    name="paxml",
    title="PAXML",
    signs=(b"train_step() ",),
    markers=(b"train_step() ", b"[PAX STATUS]"),
    recognise=lambda text: _TOOK.search(text) is not None,
    new_parser=PaxmlParser,
    example="I0508 15:25:28.482553 14073733 programs.py:379] [PAX STATUS]: train_step() took 38.72 seconds.",
)
