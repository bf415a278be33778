"""NeMo with dllogger: one JSON object a line behind `DLLL `, values at full precision."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from cloudai_run.metrics.formats.base import Collector, Format, Line, LineParser, positive, without_ansi

_MARKER = "DLLL "
_GOES_ON = re.compile(r"[0-9.eE+\-,}\"\]]")
_DECODER = json.JSONDecoder()


def parse(line: Line, out: Collector) -> None:
    """Reads one line; a JSON object is whole or it is not used."""
    prefix, *pieces = without_ansi(line.text).split(_MARKER)
    for piece in pieces:
        try:
            piece = piece.lstrip()
            record, stop = _DECODER.raw_decode(piece)
        except (ValueError, RecursionError):
            record, stop = None, len(piece)
        # A bracket inside a number ends the record too early: the rest of the number then follows it.
        if record is None or _GOES_ON.match(piece, stop):
            out.problem("records that are no whole JSON", line, _MARKER + piece)
            continue
        if not isinstance(record, dict) or not isinstance(record.get("data"), dict):
            out.problem("records without data", line, _MARKER + piece)
            continue
        if record.get("step") == "PARAMETER":
            _parameters(record["data"], out)
        else:
            _step(record, line, out, prefix)


def _parameters(data: Mapping[str, object], out: Collector) -> None:
    """Reads from the run's configuration what changes how its steps are to be taken."""
    if data.get("cfg/nsys_profile/enabled") is True:
        first, last = data.get("cfg/nsys_profile/start_step"), data.get("cfg/nsys_profile/end_step")
        if isinstance(first, int) and isinstance(last, int) and first <= last:
            out.profiled = (first, last)


def _step(record: Mapping[str, object], line: Line, out: Collector, prefix: str) -> None:
    data = record["data"]
    assert isinstance(data, dict)
    if not {"train_step_timing in s", "reduced_train_loss"} & data.keys():
        return
    step = _whole(data.get("global_step"))
    if step is None:
        step = _whole(record.get("step"))
    if step is None:
        out.problem("records without a step number", line)
        return
    step_time = positive(_float(data.get("train_step_timing in s")))
    if step_time is None:
        out.problem("step lines without a usable step time", line)
    out.add(
        {
            "step": step,
            "step_time_s": step_time,
            "loss": _float(data.get("reduced_train_loss")),
            "val_loss": _float(data.get("val_loss")),
            "grad_norm": _float(data.get("grad_norm")),
            "learning_rate": _float(data.get("lr")),
            "global_batch_size": _whole(data.get("global_batch_size")),
            "consumed_samples": _whole(data.get("consumed_samples")),
            "framework_tflops_per_gpu": positive(_float(data.get("TFLOPS_per_GPU"))),
            "tokens_per_s_per_gpu": positive(_float(data.get("tokens_per_sec_per_gpu"))),
        },
        prefix,
        line.offset,
        line.line,
    )


def _float(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def _whole(value: object) -> int | None:
    number = _float(value)
    return int(number) if number is not None and 0 <= number < 1e15 and number == int(number) else None


FORMAT = Format(
    name="nemo2_dllogger",
    title="NeMo (dllogger)",
    signs=(b'DLLL {"',),
    markers=(b'DLLL {"',),
    recognise=lambda text: _MARKER + "{" in text and '"data"' in text,
    new_parser=lambda: LineParser(parse),
    example='DLLL {"step": 47, "data": {"reduced_train_loss": 8.6, "train_step_timing in s": 32.46}}',
)
