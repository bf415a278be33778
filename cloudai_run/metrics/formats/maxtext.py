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
    LineParser,
    number,
    positive,
    without_ansi,
)

_STEP = re.compile(r"completed step: (\d+), ")
_CHECKPOINT = re.compile(r"saved a checkpoint at step (\d+)")
_THREE_DECIMALS = re.compile(r"-?\d+\.\d{3}|nan|-?inf")
_TFLOPS = ("TFLOP/s/device", "TFLOP/s")
_KEY = re.compile(r"[A-Za-z][\w/ ]*")


def parse(line: Line, out: Collector) -> None:
    """Reads one candidate line, which may hold several steps if line ends were lost."""
    text = without_ansi(line.text)
    heads = list(_STEP.finditer(text))
    if not heads:
        if found := _CHECKPOINT.search(text):
            out.checkpoint_steps.add(int(found[1]))
        elif "completed step" in text:
            out.problem("step lines not understood", line, text)
        return
    if len(heads) > 1:
        out.problem("lines glued together, read apart", line)
    for position, head in enumerate(heads):
        stop = heads[position + 1].start() if position + 1 < len(heads) else len(text)
        whole = position + 1 == len(heads) and line.last_value_is_whole()
        _step(line, out, text[: heads[0].start()], int(head[1]), text[head.end() : stop], whole)


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


def _step(line: Line, out: Collector, prefix: str, step: int, text: str, whole: bool) -> None:
    values = _fields(line, out, text, whole)
    step_time = positive(number(values.get("seconds", "")))
    if step_time is None:
        out.problem("step lines without a usable step time", line)
    tflops = next((values[key] for key in _TFLOPS if key in values), "")
    out.add(
        {
            "step": step,
            "step_time_s": step_time,
            "loss": number(values.get("loss", "")),
            "framework_tflops_per_gpu": positive(number(tflops)),
            "tokens_per_s_per_gpu": positive(number(values.get("Tokens/s/device", ""))),
        },
        prefix,
        line.offset,
        line.line,
    )


FORMAT = Format(
    name="maxtext",
    title="MaxText",
    signs=(b"completed step: ",),
    markers=(b"completed step: ", b"saved a checkpoint at step "),
    recognise=lambda text: _STEP.search(text) is not None and "seconds: " in text,
    new_parser=lambda: LineParser(parse),
    example="completed step: 11, seconds: 20.935, TFLOP/s/device: 1507.142, ..., loss: 12.329",
)
