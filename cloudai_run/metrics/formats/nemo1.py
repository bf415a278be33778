"""NeMo 1: tqdm progress bars (`Epoch 0: 100%|...| 100/100 [18:58<00:00, global_step=99.00, ...]`).

One physical line holds the whole run, its states separated by carriage returns. Values are rounded to three
or four digits. Some bars hold no step timing: the rate in them (`1.27it/s`) is a running mean, no step time.
"""

from __future__ import annotations

import itertools
import re

from cloudai_run.metrics.formats.base import (
    Collector,
    Format,
    Line,
    Place,
    number,
    positive,
    whole_number,
    without_ansi,
)

_STATE = re.compile(r"Epoch (\d+):")
# The closing bracket must not stand inside a number, or the last value is a torn one.
_BAR = re.compile(r"\|\s*(\d+)/(\d+|\?) \[([^\[\]]*)\](?![0-9.eE+-])")
_RATE = re.compile(r"[\d.?]+(?:it/s|s/it)")
NO_TIMING = "the bars hold no train_step_timing, and their it/s is a running mean: no step times can be given"


def _values(inside: str, line: Line, out: Collector) -> dict[str, str]:
    """Returns the `key=value` pairs between the brackets; what ends each shows that it is whole."""
    values: dict[str, str] = {}
    key = ""
    for part in inside.split(",")[1:]:
        name, equals, value = part.partition("=")
        if equals:
            key = name.strip()
            values[key] = value.strip()
        elif _RATE.fullmatch(part.strip()) is None:
            values.pop(key, None)
            out.problem("step lines read in part", line, part)
    return values


class Nemo1Parser:
    """Reads one source; steps without a number are kept apart until it is known whether the bars have one."""

    def __init__(self) -> None:
        self._numbered = False
        self._counted: list[tuple[dict[str, float | int | str | None], str, Line]] = []

    def quick(self, at: Place, out: Collector) -> int:
        """Reads nothing."""
        return -1

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one carriage-return separated state, or several that were glued together."""
        text = without_ansi(line.text)
        starts = [match.start() for match in _STATE.finditer(text)]
        if len(starts) > 1:
            out.problem("lines glued together, read apart", line)
        for start, stop in itertools.pairwise([*starts, len(text)]):
            self._state(line, out, text[: starts[0]], text[start:stop])

    def finish(self, out: Collector) -> None:
        """Takes the count in front of the bar for the step's number, if no bar held a number."""
        for fields, prefix, line in self._counted:
            if self._numbered:
                out.problem("step lines not understood", line)
            else:
                out.add(fields, prefix, line.offset, line.line)
        if out.steps and all(step.step_time_s is None for step in out.steps):
            out.notes[NO_TIMING] = None

    def _state(self, line: Line, out: Collector, prefix: str, text: str) -> None:
        bar = _BAR.search(text)
        if bar is None:
            if "|" in text:
                out.problem("progress bars cut short", line, text)
            return
        values = _values(bar[3], line, out)
        done = int(bar[1])
        fields: dict[str, float | int | str | None] = {
            "step_time_s": positive(number(values.get("train_step_timing in s", ""))),
            "loss": number(values.get("reduced_train_loss", values.get("loss", ""))),
            "val_loss": number(values.get("val_loss", "")),
            "grad_norm": number(values.get("grad_norm", "")),
            "learning_rate": number(values.get("lr", "")),
            "consumed_samples": whole_number(values.get("consumed_samples", "")),
        }
        if fields["step_time_s"] is None and fields["loss"] is None:
            return
        out.last_of_all = done == whole_number(bar[2])
        said = values.get("global_step")
        if said is None:
            self._counted.append(({"step": done, **fields}, prefix, line))
            return
        self._numbered = True
        # Three digits do not tell steps above 999 apart, the count in front of the bar does.
        step = whole_number(said) if "e" not in said else done - 1
        if step is None:
            out.problem("step lines not understood", line, text)
        else:
            out.add({"step": step, **fields}, prefix, line.offset, line.line)


def _recognise(text: str) -> bool:
    return _STATE.search(text) is not None and _BAR.search(text) is not None and "=" in text


FORMAT = Format(
    name="nemo1",
    title="NeMo 1 (tqdm progress bars)",
    signs=(b"Epoch ",),
    markers=(b"Epoch ",),
    recognise=_recognise,
    new_parser=Nemo1Parser,
    example="Epoch 0: 100%|###| 100/100 [18:58<00:00, global_step=99.00, train_step_timing in s=11.10]",
)
