"""Whether a run's numbers may be used: valid, incomplete (they stand, flagged) or invalid."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from cloudai_run.metrics.samples import Failure, ParsedLog, Step, Validity, Window

# What ended the run from outside, or before its end: what was measured until then stands.
_ENDED_FROM_OUTSIDE = frozenset({"time_limit", "cancelled", "node_failure"})
_ENOUGH_FOR_LOSS = 20
_DIVERGED = 1.5


def judge(
    log: ParsedLog,
    window: Window,
    *,
    max_steps: int | None = None,
    exit_code: int | None = None,
    expect_falling_loss: bool | None = None,
) -> Validity:
    """Returns the verdict on a training log with its reasons, the gravest first.

    Args:
        log: the log of the stage.
        window: its steady window.
        max_steps: how many steps the run was to do, if it is known from elsewhere than the log.
        exit_code: of the stage, if it is known.
        expect_falling_loss: True: the loss must fall; None: only a loss that diverges counts against the run.
    """
    invalid = _not_a_number(window.all_steps)
    reached = _reached(log, window.all_steps, max_steps or log.max_steps)
    invalid += _loss(window.all_steps, expect_falling_loss)
    incomplete: list[str] = []
    fatal = [failure for failure in log.failures if failure.fatal]
    for failure in fatal:
        outside = failure.kind in _ENDED_FROM_OUTSIDE
        (incomplete if reached or outside else invalid).append(_words(failure, after=reached))
    if exit_code is not None and exit_code != 0 and not fatal:
        text = f"the stage ended with exit code {exit_code}"
        if reached:
            incomplete.append(f"{text}, after its last step")
        else:
            invalid.append(f"{text} before its last step")
    if not window.steps:
        invalid.append(window.note or "no step is left to measure")
    if not reached:
        incomplete += _short(log, window.all_steps, max_steps or log.max_steps)
    if invalid:
        return Validity("invalid", tuple(dict.fromkeys(invalid + incomplete)))
    if incomplete:
        return Validity("incomplete", tuple(dict.fromkeys(incomplete)))
    return Validity("valid", ())


def _words(failure: Failure, *, after: bool) -> str:
    rank = f"rank {failure.rank}: " if failure.rank is not None else ""
    where = failure.source if failure.line is None else f"{failure.source}:{failure.line}"
    when = "after the last step, " if after else ""
    return f"{when}{rank}{failure.kind} ({where}): {failure.message[:120]}"


def _last_number(steps: Sequence[Step]) -> int | None:
    return max((step.step for step in steps), default=None)


def _reached(log: ParsedLog, steps: Sequence[Step], max_steps: int | None) -> bool:
    """Whether the last step was done: told by the end marker, or by the numbers where there is no such marker."""
    if log.ended is not None:
        return log.ended
    return bool(steps) and (max_steps is None or _did_all(log, steps, max_steps))


def _did_all(log: ParsedLog, steps: Sequence[Step], max_steps: int) -> bool:
    last = _last_number(steps)
    counts_from_one = log.format in ("megatron_lm", "megatron_bridge")
    return last is not None and last + (0 if counts_from_one else 1) >= max_steps


def _short(log: ParsedLog, steps: Sequence[Step], max_steps: int | None) -> list[str]:
    """Returns in what a run that did not reach its end falls short."""
    silent = [rank for rank in log.ranks if not rank.ended]
    if log.format == "paxml" and silent and len(silent) < len(log.ranks):
        names = ", ".join(str(rank.rank) if rank.rank is not None else str(rank.node) for rank in silent[:8])
        more = ", ..." if len(silent) > 8 else ""
        return [f"no end marker from rank {names}{more} ({len(silent)} of {len(log.ranks)} ranks)"]
    last = _last_number(steps)
    if last is None:
        return []
    if max_steps is not None and _did_all(log, steps, max_steps):
        return [f"all {max_steps} steps are there, but no end marker: it may have hung at the end"]
    if max_steps is not None:
        return [f"no end marker, and the last step is {last} of {max_steps}"]
    return [f"no end marker in the log, and the last step is {last}"]


def _not_a_number(steps: Sequence[Step]) -> list[str]:
    """Returns the steps whose loss or gradient is no finite number."""
    reasons: list[str] = []
    for name, values in (
        ("loss", [(step.step, step.loss) for step in steps]),
        ("gradient norm", [(step.step, step.grad_norm) for step in steps]),
    ):
        bad = [(number, value) for number, value in values if value is not None and not math.isfinite(value)]
        if bad:
            reasons.append(f"{name} is {bad[0][1]} from step {bad[0][0]} ({len(bad)} steps)")
    nan = [step for step in steps if step.nan_iterations]
    if nan:
        count = sum(step.nan_iterations or 0 for step in nan)
        reasons.append(f"{count} NaN iterations, first by step {nan[0].step}")
    return reasons


def _loss(steps: Sequence[Step], expect_falling: bool | None) -> list[str]:
    """Returns what is wrong with the course of the loss: its first fifth against its last, by medians."""
    losses = [step.loss for step in steps if step.loss is not None and math.isfinite(step.loss)]
    if (
        len(losses) < 2
        or (expect_falling is None and len(losses) < _ENOUGH_FOR_LOSS)
        or expect_falling is False
    ):
        return []
    part = max(1, len(losses) // 5)
    first, last = statistics.median(losses[:part]), statistics.median(losses[-part:])
    if expect_falling and last >= first:
        return [f"the loss does not fall: {first:.4g} at first, {last:.4g} at last"]
    if last > first * _DIVERGED > 0:
        return [f"the loss grows from {first:.4g} to {last:.4g}"]
    return []
