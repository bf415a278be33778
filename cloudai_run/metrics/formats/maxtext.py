"""MaxText: `completed step: 11, seconds: 20.935, TFLOP/s/device: 1507.142, ..., loss: 12.329`.

Three decimals throughout, so a last value with fewer was cut, and a rate of 0.000 says only that it is small.
The first steps are not to be trusted (compilation, then dispatch without waiting): see the window's rule.
"""

from __future__ import annotations

import re

from cloudai_run.metrics.formats.base import (
    Collector,
    Format,
    Line,
    Place,
    number,
    positive,
    without_ansi,
)
from cloudai_run.metrics.formats.layout import LINE_END, Fields, Known, Layout

_STEP = re.compile(r"completed step: (\d+), ")
_THREE_DECIMALS = re.compile(r"-?\d+\.\d{3}|nan|-?inf")
_KEY = re.compile(r"[A-Za-z][\w/ ]*")
_FIELDS: Known = {
    "seconds": ("step_time_s", number),
    "TFLOP/s/device": ("framework_tflops_per_gpu", number),
    "TFLOP/s": ("framework_tflops_per_gpu", number),
    "Tokens/s/device": ("tokens_per_s_per_gpu", number),
    "loss": ("loss", number),
}
_POSITIVE = ("step_time_s", "framework_tflops_per_gpu", "tokens_per_s_per_gpu")


class MaxtextParser:
    """Reads one source; remembers how its lines are laid out."""

    def __init__(self) -> None:
        self._layout: Layout | None = None

    def quick(self, at: Place, out: Collector) -> int:
        """Reads the line at a marker if it is laid out as the lines before it; returns its end, or -1."""
        found = self._layout.read(at) if self._layout else None
        if found is None or not found.fields.get("step_time_s"):
            return -1
        found.fields["step"] = int(found.head[0])
        out.add(_without_zeros(found.fields), found.prefix, at.offset + found.start, at.line)
        return found.end

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one candidate line, which may hold several steps if line ends were lost."""
        text = without_ansi(line.text)
        heads = list(_STEP.finditer(text))
        if not heads:
            out.problem("step lines not understood", line, text)
            return
        if len(heads) > 1:
            out.problem("lines glued together, read apart", line)
        for position, head in enumerate(heads):
            stop = heads[position + 1].start() if position + 1 < len(heads) else len(text)
            whole = position + 1 == len(heads) and line.last_value_is_whole()
            keys = _step(line, out, text[: heads[0].start()], int(head[1]), text[head.end() : stop], whole)
            if keys and whole:
                self._layout = Layout.of(
                    r"completed step: (\d+)", keys, _FIELDS, ", KEY: VALUE", r"(?<=\.[0-9]{3})" + LINE_END
                )

    def finish(self, out: Collector) -> None:
        """Does nothing."""


def _without_zeros(fields: Fields) -> Fields:
    """Drops what is no measurement: a rate of 0.000 is only too small for three decimals."""
    for name in _POSITIVE:
        if fields.get(name) == 0:
            del fields[name]
    return fields


def _fields(line: Line, out: Collector, text: str, whole: bool) -> dict[str, str]:
    values: dict[str, str] = {}
    key = ""
    parts = text.split(",")
    for position, part in enumerate(parts):
        name, colon, value = part.partition(":")
        if not colon or _KEY.fullmatch(name.strip()) is None:
            values.pop(key, None)
            if part.strip():
                out.problem("step lines read in part", line, part)
            continue
        last = position == len(parts) - 1
        if last and not (whole and _THREE_DECIMALS.fullmatch(value.strip())):
            continue
        key = name.strip()
        values[key] = value.strip()
    return values


def _step(line: Line, out: Collector, prefix: str, step: int, text: str, whole: bool) -> list[str]:
    """Adds the step; returns the keys of a line that is whole, else nothing."""
    values = _fields(line, out, text, whole)
    fields: Fields = {"step": step}
    for key, value in values.items():
        if key in _FIELDS:
            name, read = _FIELDS[key]
            found = read(value)
            fields[name] = positive(found) if name in _POSITIVE else found
    if fields.get("step_time_s") is None:
        out.problem("step lines without a usable step time", line)
    out.add(fields, prefix, line.offset, line.line)
    return list(values) if len(values) == text.count(",") + 1 and "step_time_s" in fields else []


FORMAT = Format(
    name="maxtext",
    title="MaxText",
    signs=(b"completed step: ",),
    markers=(b"completed step: ",),
    recognise=lambda text: _STEP.search(text) is not None and "seconds: " in text,
    new_parser=MaxtextParser,
    example="completed step: 11, seconds: 20.935, TFLOP/s/device: 1507.142, ..., loss: 12.329",
)
