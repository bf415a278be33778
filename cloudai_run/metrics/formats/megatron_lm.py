"""Megatron-LM: a line every log interval, from the last rank (` iteration 10/500 | ... | elapsed time ...`).

Each value is closed by ` |`, so a value without it was cut. The loss is printed only where it is not
negative: a NaN loss simply has no field, and shows as `number of nan iterations`.
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

_HEAD = re.compile(r"(?<![\w.])iteration\s+(\d+)\s*/\s*(\d+)\s*\|")
_VALIDATION = re.compile(r"validation loss at iteration\s+(\d+)\b[^|]*\|\s*lm loss value:\s*(\S+)\s*\|")
_CHECKPOINT = re.compile(
    r"saved checkpoint from iteration\s+(\d+)\s+to\b|saving checkpoint at iteration\s+(\d+)\s+to\b"
)
_ELAPSED = "elapsed time per iteration (ms)"
_THROUGHPUT = ("throughput per GPU (TFLOP/s/GPU)", "TFLOPs")
_LOSSES = ("lm loss", "loss", "mlm loss", "reduced_train_loss")


def parse_line(line: Line, out: Collector, text: str) -> None:
    """Reads the iterations in a line's text, and what it says of validations and checkpoints."""
    heads = list(_HEAD.finditer(text))
    if len(heads) > 1:
        out.problem("lines glued together, read apart", line)
    for position, head in enumerate(heads):
        stop = heads[position + 1].start() if position + 1 < len(heads) else len(text)
        _iteration(line, out, text[: heads[0].start()], head, text[head.end() : stop])
    if heads:
        return
    if found := _VALIDATION.search(text):
        value = number(found[2])
        out.validations[int(found[1])] = float("nan") if value is None else value
    elif found := _CHECKPOINT.search(text):
        out.checkpoint_steps.add(int(found[1] or found[2]))
    elif "consumed samples" in text or _ELAPSED in text:
        out.problem("step lines not understood", line, text)


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


def _first(value: str | None) -> float | None:
    """Returns the first number of `4000.0` or of `4000.0/4010.0` (this interval / running mean)."""
    return None if value is None else number(value.partition("/")[0].strip())


def _iteration(line: Line, out: Collector, prefix: str, head: re.Match[str], text: str) -> None:
    values = _fields(line, out, text)
    step, total = int(head[1]), int(head[2])
    elapsed_ms = positive(_first(values.get(_ELAPSED)))
    if elapsed_ms is None:
        out.problem("step lines without a usable step time", line, head[0] + text)
    loss_key = next((key for key in _LOSSES if key in values), None)
    throughput = next((values[key] for key in _THROUGHPUT if key in values), None)
    out.total_steps = total
    out.last_of_all = step == total
    out.add(
        {
            "step": step,
            "step_time_s": None if elapsed_ms is None else elapsed_ms / 1000,
            "loss": number(values[loss_key]) if loss_key else None,
            "grad_norm": _first(values.get("grad norm")),
            "learning_rate": _first(values.get("learning rate")),
            "global_batch_size": whole_number(values.get("global batch size", "")),
            "consumed_samples": whole_number(values.get("consumed samples", "")),
            "framework_tflops_per_gpu": positive(_first(throughput)),
            "nan_iterations": whole_number(values.get("number of nan iterations", "")),
            "skipped_iterations": whole_number(values.get("number of skipped iterations", "")),
        },
        prefix,
        line.offset,
        line.line,
    )


def parse(line: Line, out: Collector) -> None:
    """Reads one candidate line."""
    parse_line(line, out, without_ansi(line.text))


FORMAT = Format(
    name="megatron_lm",
    title="Megatron-LM",
    signs=(b"iteration ",),
    markers=(b"iteration ",),
    recognise=lambda text: _HEAD.search(text) is not None and _ELAPSED in text,
    new_parser=lambda: LineParser(parse),
    example="iteration 10/ 500 | consumed samples: 2560 | elapsed time per iteration (ms): 15800.0 | ...",
)
