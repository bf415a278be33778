"""Megatron-Bridge: Megatron-LM's line from the last rank, `Step Time : 6.13s GPU utilization: ...` of rank 0.

The two belong together but may stand in different files or out of order: neighbours in one file are paired,
and otherwise the k-th of the one kind with the k-th of the other. A utilization of 0 is printed for models
whose FLOPs Megatron-Bridge cannot count: it means missing.
"""

from __future__ import annotations

import bisect
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
# Step Time has two decimals, and the two ranks' clocks differ a little.
_ROUNDING_S = 0.0051
_SHARE = 0.01
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
    """Joins the lines of the two kinds: neighbours where they stand in one file, else by occurrence.

    Args:
        steps: iteration lines in order (numbers, precise times, losses).
        timings: Step Time lines in order (TFLOP/s, times of two decimals).

    Returns:
        The steps with their TFLOP/s, and how many Step Time lines found no partner. Without any iteration
        line the timings themselves become the steps, numbered from 1.
    """
    if not steps:
        return [dataclasses.replace(timing, step=k) for k, timing in enumerate(timings, start=1)], 0
    one_file = len({line.source for line in (*steps, *timings)}) == 1
    partners = _neighbours(steps, timings) if one_file else []
    if 2 * sum(partner is not None for partner in partners) < min(len(steps), len(timings)):
        partners = _by_occurrence(steps, timings)
    joined = [
        step if partner is None else _joined(step, partner)
        for step, partner in zip(steps, partners, strict=True)
    ]
    return joined, len(timings) - sum(partner is not None for partner in partners)


def _joined(step: Step, timing: Step) -> Step:
    if timing.framework_tflops_per_gpu is None:
        return step
    return dataclasses.replace(step, framework_tflops_per_gpu=timing.framework_tflops_per_gpu)


def _agree(step: Step, timing: Step) -> bool:
    if step.step_time_s is None or timing.step_time_s is None:
        return False
    return abs(timing.step_time_s - step.step_time_s) <= max(_ROUNDING_S, _SHARE * step.step_time_s)


def _neighbours(steps: Sequence[Step], timings: Sequence[Step]) -> list[Step | None]:
    """Returns the partner of each iteration line: the one Step Time line between it and the next one.

    Which of the two comes first in a pair is told by the first line of all.
    """
    before = bool(timings) and timings[0].offset < steps[0].offset
    edges = [step.offset for step in steps]
    between: dict[int, list[Step]] = {}
    for timing in timings:
        position = bisect.bisect_left(edges, timing.offset)
        between.setdefault(position if before else position - 1, []).append(timing)
    found: list[Step | None] = []
    for position, step in enumerate(steps):
        candidates = between.get(position, [])
        found.append(candidates[0] if len(candidates) == 1 and _agree(step, candidates[0]) else None)
    return found


def _by_occurrence(steps: Sequence[Step], timings: Sequence[Step]) -> list[Step | None]:
    """Returns the partner of each iteration line: the next Step Time line whose time agrees."""
    found: list[Step | None] = []
    position = 0
    for step in steps:
        # Lost lines shift the count by a few at most.
        ahead = range(position, min(position + 4, len(timings)))
        index = next((index for index in ahead if _agree(step, timings[index])), None)
        found.append(None if index is None else timings[index])
        position = position if index is None else index + 1
    return found


FORMAT = Format(
    name="megatron_bridge",
    title="Megatron-Bridge",
    signs=(b"Step Time",),
    markers=(b"iteration ", b"Step Time"),
    recognise=lambda text: _UTILIZATION.search(text) is not None,
    new_parser=lambda: LineParser(parse),
    example="Step Time : 6.13s GPU utilization: 426.6MODEL_TFLOP/s/GPU",
)
