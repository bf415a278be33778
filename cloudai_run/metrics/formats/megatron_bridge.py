"""Megatron-Bridge: Megatron-LM's line from the last rank, `Step Time : 6.13s GPU utilization: ...` of rank 0.

The two belong together but may stand in different files or out of order, so they are paired by occurrence. A
utilization of 0 is printed for models whose FLOPs Megatron-Bridge cannot count: it means missing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from cloudai_run.metrics.formats.base import (
    Collector,
    Format,
    Line,
    LineParser,
    number,
    positive,
    without_ansi,
)
from cloudai_run.metrics.formats.megatron_lm import parse_line
from cloudai_run.metrics.samples import Step

_UTILIZATION = re.compile(
    r"Step Time ?:\s*([0-9.eE+-]+)s[\s,]+(?:[\d.]+ tok/s/gpu[\s,]+)?"
    r"GPU utilization:\s*([0-9.eE+-]+|nan|inf)\s*MODEL_TFLOP/s/GPU"
)
# Step Time has two decimals; the pair's other value has tenths of milliseconds.
_ROUNDING_S = 0.0051
ORDINALS = "the file holds Step Time lines only, so the step numbers are the lines' ordinals, from 1"


def parse(line: Line, out: Collector) -> None:
    """Reads one candidate line of either kind."""
    text = without_ansi(line.text)
    if "Step Time" not in text:
        parse_line(line, out, text)
        return
    found = list(_UTILIZATION.finditer(text))
    if not found:
        out.problem("step lines not understood", line, text)
    for match in found:
        label = out.label(text[: match.start()])
        out.timings.append(
            Step(
                step=0,
                step_time_s=positive(number(match[1])),
                framework_tflops_per_gpu=positive(number(match[2])),
                rank=out.rank if label.rank is None else label.rank,
                node=label.node or out.node,
                attempt=out.attempt,
                source=out.source,
                offset=line.offset,
                line=line.line,
            )
        )
    rest = text[found[-1].end() :] if found else ""
    if "iteration " in rest:
        parse_line(line, out, rest)


def pair(steps: Sequence[Step], timings: Sequence[Step]) -> tuple[list[Step], int]:
    """Joins the lines of the two kinds: the k-th with the k-th, as long as their times agree.

    Args:
        steps: iteration lines in order (numbers, precise times, losses).
        timings: Step Time lines in order (TFLOP/s, times of two decimals).

    Returns:
        The steps with their TFLOP/s, and how many Step Time lines found no partner. Without any iteration
        line the timings themselves become the steps, numbered from 1.
    """
    if not steps:
        return [dataclasses.replace(timing, step=k) for k, timing in enumerate(timings, start=1)], 0
    joined: list[Step] = []
    position = 0
    for step in steps:
        partner = _partner(step, timings, position)
        if partner is None:
            joined.append(step)
            continue
        position = partner + 1
        timing = timings[partner]
        time_s = timing.step_time_s if step.step_time_s is None else step.step_time_s
        joined.append(
            dataclasses.replace(
                step, step_time_s=time_s, framework_tflops_per_gpu=timing.framework_tflops_per_gpu
            )
        )
    matched = sum(1 for before, after in zip(steps, joined, strict=True) if before is not after)
    return joined, len(timings) - matched


def _partner(step: Step, timings: Sequence[Step], position: int) -> int | None:
    """Returns the index of the next Step Time line that fits; lost lines shift it by a few at most."""
    for index in range(position, min(position + 4, len(timings))):
        theirs = timings[index].step_time_s
        if step.step_time_s is None or theirs is None:
            return index
        if abs(theirs - step.step_time_s) <= max(_ROUNDING_S, 0.02 * step.step_time_s):
            return index
    return None


FORMAT = Format(
    name="megatron_bridge",
    title="Megatron-Bridge",
    signs=(b"Step Time",),
    markers=(b"iteration ", b"Step Time"),
    recognise=lambda text: _UTILIZATION.search(text) is not None,
    new_parser=lambda: LineParser(parse),
    example="Step Time : 6.13s GPU utilization: 426.6MODEL_TFLOP/s/GPU",
)
