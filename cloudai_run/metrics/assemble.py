"""Puts what the sources of a stage held into one `ParsedLog`."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.metrics.detect import FORMATS
from cloudai_run.metrics.events import HEAD_BYTES, TAIL_BYTES
from cloudai_run.metrics.formats import megatron_bridge, paxml
from cloudai_run.metrics.formats.base import Format
from cloudai_run.metrics.outcome import ended, failures_of, max_steps_of, process_ranks, ranks_of
from cloudai_run.metrics.samples import FormatName, ParsedLog, Problem, Step
from cloudai_run.metrics.scan import Scanned
from cloudai_run.metrics.series import resolve

_MIB = 1 << 20


def assemble(scanned: Sequence[Scanned], *, stage: str | None) -> ParsedLog:
    """Returns the log of one stage.

    Raises:
        UserError: no source is of a known format and none tells of a failure, or there are several formats.
    """
    format = _one_format(scanned)
    failures = failures_of(scanned)
    if format is None and not failures:
        raise UserError(_unknown(scanned))
    steps, unpaired = _steps(scanned, format)
    resolved = resolve(_with_ranks(steps, scanned) if format is paxml.FORMAT else steps)
    kept = _with_validations(_with_intervals(_with_losses(resolved.steps, scanned)), scanned, format)
    max_steps = max_steps_of(scanned)
    notes = [note for one in scanned for note in one.found.notes]
    notes += _notes(scanned, format, kept, max_steps, resolved.copies)
    problems = [*_problems(scanned), *unpaired]
    checkpoints, validations = _checkpoints_and_validations(scanned)
    ranks = ranks_of(scanned, kept)
    return ParsedLog(
        format=format.name if format else None,
        stage=stage,
        sources=tuple(one.found.source for one in scanned),
        steps=kept,
        ranks=ranks,
        tables=tuple(table for one in scanned for table in one.found.tables),
        ended=ended(scanned, ranks, format, kept, max_steps),
        max_steps=max_steps,
        restarts=resolved.restarts,
        superseded=resolved.superseded,
        checkpoint_steps=checkpoints,
        validation_steps=validations,
        profiled_steps=next((one.found.profiled for one in scanned if one.found.profiled), None),
        failures=failures,
        problems=tuple(problems),
        notes=tuple(dict.fromkeys(notes)),
        bytes_read=sum(one.size for one in scanned),
        lines_used=len(steps) + sum(one.found.lines_used for one in scanned),
    )


def _one_format(scanned: Sequence[Scanned]) -> Format | None:
    """Returns the format of the stage; a source without a step line (another stream or rank) has none."""
    first: dict[FormatName, Scanned] = {}
    for one in scanned:
        if one.format is not None and (one.found.steps or one.found.timings or one.found.tables):
            first.setdefault(one.format.name, one)
    if not first:
        return next((one.format for one in scanned if one.format), None)
    for together, stands in _TOGETHER:
        if set(first) <= together:
            return FORMATS[stands] if stands in first else next(one.format for one in first.values())
    if len(first) == 1:
        return next(iter(first.values())).format
    lines = [f"  {one.found.source}: {one.format.title}" for one in first.values() if one.format]
    raise UserError("\n".join(["these logs are of several formats: give those of one run", *lines[:4]]))


# Formats that one run prints side by side, and which of them holds more.
_TOGETHER: tuple[tuple[frozenset[FormatName], FormatName], ...] = (
    (frozenset({"megatron_lm", "megatron_bridge"}), "megatron_bridge"),
    (frozenset({"nemo2", "nemo2_dllogger", "nemo1"}), "nemo2_dllogger"),
)


def _unknown(scanned: Sequence[Scanned]) -> str:
    names = ", ".join(one.found.source for one in scanned[:3]) + (", ..." if len(scanned) > 3 else "")
    size = sum(one.size for one in scanned)
    titles = ", ".join(format.title for format in FORMATS.values())
    return (
        f"no step line of a known format in {names} ({size} bytes)\n"
        f"  known are: {titles}\n"
        "  NeMo prints its steps on rank 0, Megatron on the last rank, PAXML on stderr: is it the right file?"
    )


def _steps(scanned: Sequence[Scanned], format: Format | None) -> tuple[list[Step], list[Problem]]:
    """Returns all steps in the order in which they were printed."""
    if format is megatron_bridge.FORMAT:
        lines = [step for one in scanned for step in one.found.steps]
        timings = [timing for one in scanned for timing in one.found.timings]
        steps, unpaired = megatron_bridge.pair(lines, timings)
        kind = "Step Time lines without their iteration line"
        problem = Problem(kind, unpaired, timings[0].source, timings[0].line, "") if unpaired else None
        return steps, [problem] if problem else []
    same = [one for one in scanned if one.format is format] or list(scanned)
    return [step for one in same for step in one.found.steps], []


def _with_ranks(steps: Iterable[Step], scanned: Sequence[Scanned]) -> list[Step]:
    """Replaces the thread ids of processes without a label by their ranks, where the log tells them."""
    steps = list(steps)
    ranks = process_ranks(scanned)
    threads = {(step.source, step.node) for step in steps if step.rank is None and step.node}
    alone = len(threads) == 1
    named: list[Step] = []
    for step in steps:
        thread = (step.node or "").removeprefix(paxml.THREAD)
        if step.rank is None and step.node is not None and step.node.startswith(paxml.THREAD):
            rank = ranks.get((step.source, thread))
            node = None if rank is not None or alone else step.node
            named.append(dataclasses.replace(step, rank=rank, node=node))
        else:
            named.append(step)
    return named


def _with_losses(steps: Sequence[Step], scanned: Sequence[Scanned]) -> tuple[Step, ...]:
    """Adds the losses that stand on lines of their own; a step whose time was not printed gets none."""
    losses: dict[int, float] = {}
    for one in scanned:
        for (_, number), loss in one.found.losses.items():
            losses.setdefault(number, loss)
    if not losses:
        return tuple(steps)
    known = {step.step for step in steps}
    with_loss = [
        dataclasses.replace(step, loss=losses[step.step]) if step.step in losses else step for step in steps
    ]
    first = steps[0] if steps else Step(0)
    extra = [
        Step(number, loss=loss, rank=first.rank, node=first.node, attempt=first.attempt, source=first.source)
        for number, loss in sorted(losses.items())
        if number not in known
    ]
    return (*with_loss, *extra)


def _with_intervals(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Sets how many steps each line stands for, where lines come every so many steps (a log interval)."""
    if len(steps) < 2 or steps[0].skipped_iterations is None:
        return tuple(steps)
    gaps = [
        after.step - before.step for before, after in itertools.pairwise(steps) if after.step > before.step
    ]
    interval = min(gaps, default=1)
    if interval < 2:
        return tuple(steps)
    return tuple(dataclasses.replace(step, covers_steps=min(interval, max(step.step, 1))) for step in steps)


def _with_validations(
    steps: Sequence[Step], scanned: Sequence[Scanned], format: Format | None
) -> tuple[Step, ...]:
    """Gives a step the loss of the validation that ran after it, if it stands on a line of its own."""
    if format is None or not format.name.startswith("megatron"):
        return tuple(steps)
    values = {number: value for one in scanned for number, value in one.found.validations.items()}
    return tuple(
        dataclasses.replace(step, val_loss=values[step.step]) if step.step in values else step
        for step in steps
    )


def _problems(scanned: Sequence[Scanned]) -> list[Problem]:
    """Returns each kind of problem once, with its count over all sources and its first place."""
    kinds: dict[str, Problem] = {}
    for one in scanned:
        for kind, seen in one.found.problems.items():
            if kind in kinds:
                kinds[kind] = dataclasses.replace(kinds[kind], count=kinds[kind].count + seen.count)
                continue
            line = seen.line if seen.line is not None else _line_number(one.found.source, seen.offset)
            kinds[kind] = Problem(kind, seen.count, one.found.source, line, seen.example)
    return list(kinds.values())


def _line_number(source: str, offset: int) -> int | None:
    """Returns the line number at an offset, counted anew; None for what cannot be read again."""
    path = Path(source)
    if not path.is_file():
        return None
    lines = 1
    with path.open("rb", buffering=0) as stream:
        while offset > 0 and (piece := stream.read(min(_MIB, offset))):
            lines += piece.count(b"\n")
            offset -= len(piece)
    return lines


def _checkpoints_and_validations(scanned: Sequence[Scanned]) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the numbers of the steps after which a checkpoint was written, and a validation was run."""
    after: dict[str, set[int]] = {"checkpoint": set(), "validation": set()}
    for one in scanned:
        after["checkpoint"] |= one.found.checkpoint_steps
        after["validation"] |= {number for number in one.found.validations if number >= 0}
        offsets = [step.offset for step in one.found.steps]
        for event in one.events:
            if event.kind not in after:
                continue
            position = bisect.bisect_left(offsets, event.offset)
            if event.number is not None:
                after[event.kind].add(event.number)
            elif position:
                after[event.kind].add(one.found.steps[position - 1].step)
    return frozenset(after["checkpoint"]), frozenset(after["validation"])


def _notes(
    scanned: Sequence[Scanned],
    format: Format | None,
    steps: Sequence[Step],
    max_steps: int | None,
    copies: int,
) -> list[str]:
    notes: list[str] = []
    if copies:
        notes.append(f"{copies} step lines repeat another one and were dropped")
    if any(one.size > HEAD_BYTES + TAIL_BYTES for one in scanned):
        searched = f"the first {HEAD_BYTES // _MIB} and the last {TAIL_BYTES // _MIB} MB of each file"
        notes.append(f"errors, checkpoints and validations were looked for in {searched}")
    timed = {step.step for step in steps if step.step_time_s is not None}
    if format is paxml.FORMAT and max_steps is not None and max_steps > len(timed) == paxml.PRINTED_STEPS:
        limit = f"the first {paxml.PRINTED_STEPS} steps of a process only"
        notes.append(f"PAXML prints the times of {limit}: {max_steps - len(timed)} of {max_steps} have none")
    if format is megatron_bridge.FORMAT and not any(one.found.steps for one in scanned):
        notes.append(megatron_bridge.ORDINALS)
    return notes
