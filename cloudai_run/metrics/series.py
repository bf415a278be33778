"""Puts the steps of many sources into one order: by rank, restarts resolved, copies dropped."""

from __future__ import annotations

import dataclasses
import operator
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cloudai_run.metrics.samples import Step

_MERGED_FIELDS = (
    "step_time_s",
    "loss",
    "val_loss",
    "grad_norm",
    "learning_rate",
    "global_batch_size",
    "consumed_samples",
    "tokens_per_s_per_gpu",
    "framework_tflops_per_gpu",
    "memory_reserved_bytes",
    "memory_allocated_bytes",
    "nan_iterations",
    "skipped_iterations",
)

Who = tuple[int | None, str | None]
_number = operator.attrgetter("step")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The steps that stand, and what happened to the others.

    Attributes:
        restarts: the largest number of restarts that one rank had.
        superseded: steps that a later attempt ran again.
        copies: lines that repeat a step word for word (a rank's own file beside the node's).
    """

    steps: tuple[Step, ...]
    restarts: int
    superseded: int
    copies: int


def who(step: Step) -> Who:
    """Returns what tells the printing processes apart: the rank, else the node."""
    return (step.rank, None) if step.rank is not None else (None, step.node)


def _order(key: Who) -> tuple[bool, int, str]:
    rank, node = key
    return rank is None, rank or 0, node or ""


def resolve(steps: Iterable[Step]) -> Resolved:
    """Groups steps by rank; where a rank ran a step again after a restart, the last attempt wins.

    Args:
        steps: in the order in which they were printed, attempts of a path's name in ascending order.
    """
    groups: dict[Who, list[Step]] = {}
    for step in steps:
        groups.setdefault(who(step), []).append(step)
    restarts = superseded = copies = 0
    kept: list[Step] = []
    for key in sorted(groups, key=_order):
        last, again, superseded_here, copies_here = _last_attempts(groups[key])
        restarts = max(restarts, again)
        superseded += superseded_here
        copies += copies_here
        kept.extend(last)
    if len(groups) > 1 and any(rank is None for rank, _ in groups):
        kept, dropped = _without_copies(kept)
        copies += dropped
    return Resolved(tuple(kept), restarts, superseded, copies)


def _last_attempts(group: Sequence[Step]) -> tuple[list[Step], int, int, int]:
    """Returns one rank's steps by number, its restarts, and how many steps were run again or repeated."""
    attempt = first = group[0].attempt
    current: dict[int, Step] = {}
    final: dict[int, Step] = {}
    superseded = copies = 0
    for step in group:
        seen = current.get(step.step)
        if step.attempt > attempt or (seen is not None and not _agree(seen, step)):
            attempt = max(step.attempt, attempt + 1)
            current = {}
            seen = None
        if seen is not None:
            copies += 1
            merged = _merge(seen, step)
            current[step.step] = merged
            final[step.step] = merged
            continue
        superseded += step.step in final
        placed = step if step.attempt == attempt else dataclasses.replace(step, attempt=attempt)
        current[step.step] = placed
        final[step.step] = placed
    return sorted(final.values(), key=_number), attempt - first, superseded, copies


def _agree(one: Step, other: Step) -> bool:
    """Whether two lines can tell of one and the same step: what both hold is equal."""
    for name in ("step_time_s", "loss"):
        a, b = getattr(one, name), getattr(other, name)
        if a is not None and b is not None and a != b and (a == a or b == b):
            return False
    return True


def _merge(one: Step, other: Step) -> Step:
    """Returns the first with what it lacks filled from the second."""
    missing = {
        name: getattr(other, name)
        for name in _MERGED_FIELDS
        if getattr(one, name) is None and getattr(other, name) is not None
    }
    return dataclasses.replace(one, **missing) if missing else one


def _without_copies(steps: Sequence[Step]) -> tuple[list[Step], int]:
    """Drops unlabelled steps that a ranked line repeats: the same log, once labelled and once not."""
    ranked = {(step.step, step.step_time_s, step.loss) for step in steps if step.rank is not None}
    unlabelled = [step for step in steps if step.rank is None]
    if all((step.step, step.step_time_s, step.loss) in ranked for step in unlabelled):
        return [step for step in steps if step.rank is not None], len(unlabelled)
    return list(steps), 0


def job_series(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Returns the job's steps in order, one a number: with several ranks, the median of their step times.

    All ranks of a synchronous step take as long as the slowest, so they differ by their clocks' noise only,
    and a median does not grow with the number of ranks as a maximum does.
    """
    by_number: dict[int, list[Step]] = {}
    for step in steps:
        by_number.setdefault(step.step, []).append(step)
    return tuple(_of_all_ranks(by_number[number]) for number in sorted(by_number))


def _of_all_ranks(steps: Sequence[Step]) -> Step:
    first = steps[0]
    if len(steps) == 1:
        return first
    times = [step.step_time_s for step in steps if step.step_time_s is not None]
    filled = first
    for step in steps[1:]:
        filled = _merge(filled, step)
    return dataclasses.replace(
        filled,
        step_time_s=statistics.median(times) if times else None,
        attempt=max(step.attempt for step in steps),
        rank=first.rank,
    )
