"""Megatron-LM: a line every log interval, from the last rank (` iteration 10/500 | ... | elapsed time ...`).

Each value is closed by ` |`, so a value without it was cut. The loss is printed only where it is not
negative: a NaN loss simply has no field, and shows as `number of nan iterations`.
"""

from __future__ import annotations

import math
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
from cloudai_run.metrics.formats.layout import Fields, Known, Layout, Quick

_HEAD = re.compile(r"(?<![\w.])iteration\s+(\d+)\s*/\s*(\d+)\s*\|")
_LAID_OUT = r"iteration +(\d+)/ *(\d+) \|"
_VALIDATION = re.compile(r"validation loss at iteration\s+(\d+)\b[^|]*\|\s*lm loss value:\s*(\S+)\s*\|")
_CHECKPOINT = re.compile(
    r"saved checkpoint from iteration\s+(\d+)\s+to\b|saving checkpoint at iteration\s+(\d+)\s+to\b"
)
_ELAPSED = "elapsed time per iteration (ms)"
# Of these the first that a line holds; others (`mtp_1 loss`, `load_balancing_loss`) are not the training's.
_LOSSES = ("lm loss", "loss", "mlm loss", "reduced_train_loss")


def _first(text: str) -> float | None:
    """Returns the first number of `4000.0` or of `4000.0/4010.0` (this interval / running mean)."""
    return number(text.partition("/")[0].strip())


_FIELDS: Known = {
    # In milliseconds until the line is whole.
    _ELAPSED: ("step_time_s", _first),
    "consumed samples": ("consumed_samples", whole_number),
    "throughput per GPU (TFLOP/s/GPU)": ("framework_tflops_per_gpu", _first),
    "TFLOPs": ("framework_tflops_per_gpu", _first),
    "learning rate": ("learning_rate", _first),
    "global batch size": ("global_batch_size", whole_number),
    "grad norm": ("grad_norm", _first),
    "number of skipped iterations": ("skipped_iterations", whole_number),
    "number of nan iterations": ("nan_iterations", whole_number),
    **dict.fromkeys(_LOSSES, ("loss", number)),
}


class MegatronParser:
    """Reads one source; remembers how its lines are laid out."""

    def __init__(self) -> None:
        self._layout: Layout | None = None

    def quick(self, at: Place, out: Collector) -> int:
        """Reads the line at a marker if it is laid out as the lines before it; returns its end, or -1."""
        found = self._layout.read(at) if self._layout else None
        if found is None or found.prefix[-1:].isalnum() or not _add(out, at, found):
            return -1
        return found.end

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one candidate line."""
        keys = parse_line(line, out, without_ansi(line.text))
        if keys:
            loss = next((key for key in _LOSSES if key in keys), None)
            known = {key: field for key, field in _FIELDS.items() if key not in _LOSSES or key == loss}
            self._layout = Layout.of(_LAID_OUT, keys, known, r" +KEY: +VALUE +\|", r"[ \t]*(?=\r?\n)")

    def finish(self, out: Collector) -> None:
        """Does nothing."""


def _add(out: Collector, at: Place, found: Quick) -> bool:
    """Adds the step of a line that was read where it stands; returns whether it could."""
    fields = found.fields
    elapsed_ms = fields.get("step_time_s")
    if not isinstance(elapsed_ms, float) or not 0 < elapsed_ms < math.inf:
        return False
    fields["step_time_s"] = elapsed_ms / 1000
    if fields.get("framework_tflops_per_gpu") == 0:
        del fields["framework_tflops_per_gpu"]
    step, total = int(found.head[0]), int(found.head[1])
    fields["step"] = step
    out.total_steps = total
    out.last_of_all = step == total
    out.add(fields, found.prefix, at.offset + found.start, at.line)
    return True


def parse_line(line: Line, out: Collector, text: str) -> list[str]:
    """Reads the iterations in a line's text, and what it says of validations and checkpoints.

    Returns:
        The keys of a line that was one whole iteration, else nothing.
    """
    heads = list(_HEAD.finditer(text))
    if len(heads) > 1:
        out.problem("lines glued together, read apart", line)
    keys: list[str] = []
    for position, head in enumerate(heads):
        stop = heads[position + 1].start() if position + 1 < len(heads) else len(text)
        keys = _iteration(line, out, text[: heads[0].start()], head, text[head.end() : stop])
    if heads:
        return keys if len(heads) == 1 and line.ended else []
    if found := _VALIDATION.search(text):
        value = number(found[2])
        out.validations[int(found[1])] = float("nan") if value is None else value
    elif found := _CHECKPOINT.search(text):
        out.checkpoint_steps.add(int(found[1] or found[2]))
    elif "consumed samples" in text or _ELAPSED in text:
        out.problem("step lines not understood", line, text)
    return []


def _fields(line: Line, out: Collector, text: str) -> dict[str, str]:
    """Returns `key: value` of each field that a bar closes; keys and values are stripped."""
    values: dict[str, str] = {}
    key = ""
    *closed, rest = text.split("|")
    for part in closed:
        name, colon, value = part.partition(":")
        if colon and name.strip()[:1].isalpha():
            key = name.strip()
            values[key] = value.strip()
        elif part.strip():
            # A bar inside a number: what stood before it is only its first part.
            values.pop(key, None)
            out.problem("step lines read in part", line, part)
    if ":" in rest:
        out.problem("step lines read in part", line, rest)
    return values


def _iteration(line: Line, out: Collector, prefix: str, head: re.Match[str], text: str) -> list[str]:
    values = _fields(line, out, text)
    step, total = int(head[1]), int(head[2])
    fields: Fields = {"step": step}
    for key, value in values.items():
        if key in _FIELDS:
            name, read = _FIELDS[key]
            if name != "loss" or name not in fields:
                fields[name] = read(value)
    fields["loss"] = next((number(values[key]) for key in _LOSSES if key in values), None)
    elapsed_ms = positive(_first(values.get(_ELAPSED, "")))
    if elapsed_ms is None:
        out.problem("step lines without a usable step time", line, head[0] + text)
    fields["step_time_s"] = None if elapsed_ms is None else elapsed_ms / 1000
    if not fields.get("framework_tflops_per_gpu"):
        fields["framework_tflops_per_gpu"] = None
    out.total_steps = total
    out.last_of_all = step == total
    out.add(fields, prefix, line.offset, line.line)
    return list(values) if elapsed_ms is not None else []


FORMAT = Format(
    name="megatron_lm",
    title="Megatron-LM",
    signs=(b"iteration ",),
    markers=(b"iteration ",),
    recognise=lambda text: _HEAD.search(text) is not None and _ELAPSED in text,
    new_parser=MegatronParser,
    example="iteration 10/ 500 | consumed samples: 2560 | elapsed time per iteration (ms): 15800.0 | ...",
)
