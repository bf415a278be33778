"""NeMo 1: tqdm progress bars (`Epoch 0: 100%|...| 100/100 [18:58<00:00, global_step=99.00, ...]`).

One physical line holds the whole run, its states separated by carriage returns. Values are rounded to three
or four digits. Some bars hold no step timing: the rate in them (`1.27it/s`) is a running mean, no step time.
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
    whole_number,
    without_ansi,
)

_STATE = re.compile(r"Epoch (\d+):")
# The closing bracket must not stand inside a number, or the last value is a torn one.
_BAR = re.compile(r"\|\s*(\d+)/(\d+|\?) \[([^\[\]]*)\](?![0-9.eE+-])")
_RATE = re.compile(r"[\d.?]+(?:it/s|s/it)")
NO_TIMING = "the bars hold no train_step_timing, and their it/s is a running mean: no step times can be given"


def parse(line: Line, out: Collector) -> None:
    """Reads one carriage-return separated state, or several that were glued together."""
    text = without_ansi(line.text)
    starts = [match.start() for match in _STATE.finditer(text)]
    if len(starts) > 1:
        out.problem("lines glued together, read apart", line)
    for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
        _state(line, out, text[: starts[0]], text[start:stop])


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
            out.problem("broken lines, read in part", line, part)
    return values


def _state(line: Line, out: Collector, prefix: str, text: str) -> None:
    bar = _BAR.search(text)
    if bar is None:
        if "|" in text:
            out.problem("progress bars cut short", line, text)
        return
    values = _values(bar[3], line, out)
    done = int(bar[1])
    number_text = values.get("global_step", "")
    # Three digits do not tell steps above 999 apart, the count in front of the bar does.
    step = whole_number(number_text) if "e" not in number_text else done - 1
    if step is None:
        step = done
    loss = number(values.get("reduced_train_loss", values.get("loss", "")))
    step_time = positive(number(values.get("train_step_timing in s", "")))
    if step_time is None and loss is None:
        return
    if step_time is None:
        out.notes[NO_TIMING] = None
    out.last_of_all = done == whole_number(bar[2])
    out.add(
        {
            "step": step,
            "step_time_s": step_time,
            "loss": loss,
            "val_loss": number(values.get("val_loss", "")),
            "grad_norm": number(values.get("grad_norm", "")),
            "learning_rate": number(values.get("lr", "")),
            "consumed_samples": whole_number(values.get("consumed_samples", "")),
        },
        prefix,
        line.offset,
        line.line,
    )


def _recognise(text: str) -> bool:
    return _STATE.search(text) is not None and _BAR.search(text) is not None and "=" in text


FORMAT = Format(
    name="nemo1",
    title="NeMo 1 (tqdm progress bars)",
    signs=(b"Epoch ",),
    markers=(b"Epoch ",),
    recognise=_recognise,
    new_parser=lambda: LineParser(parse),
    example="Epoch 0: 100%|###| 100/100 [18:58<00:00, global_step=99.00, train_step_timing in s=11.10]",
)
