"""How a run went by its logs: failures, end markers, ranks, the number of steps it was to do."""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Sequence

from cloudai_run.metrics.events import Event
from cloudai_run.metrics.failures import FAILURES
from cloudai_run.metrics.formats.base import Format
from cloudai_run.metrics.samples import Failure, FormatName, RankLog, Step
from cloudai_run.metrics.scan import Scanned
from cloudai_run.metrics.series import Who

_MAX_FAILURES = 20
_PRINTED_BY = operator.attrgetter("rank", "node", "source")
# An end marker counts although a line or two of the same source follow it: streams overtake each other.
_LATE_LINES = 2
# A run that printed this many steps after an error went on.
_WENT_ON = 3
_EACH_RANK_ENDS = frozenset[FormatName]({"paxml"})
_NO_END_MARKER = frozenset[FormatName]({"maxtext", "nemo2_dllogger"})


def _offsets(one: Scanned) -> list[int]:
    return sorted(step.offset for step in one.found.steps)


def _steps_after(offsets: Sequence[int], event: Event) -> int:
    return len(offsets) - bisect.bisect_right(offsets, event.offset)


def failures_of(scanned: Sequence[Scanned]) -> tuple[Failure, ...]:
    """Returns the known error texts in order, each kind and rank once.

    One that the run survived (it went on to print steps, or there was a further attempt) is not fatal.
    """
    found: dict[tuple[str, int | None], Failure] = {}
    last_attempt = max((one.found.attempt for one in scanned), default=0)
    for one in scanned:
        offsets = _offsets(one)
        for event in one.events:
            rank = one.found.rank if event.rank is None else event.rank
            if event.kind != "failure":
                continue
            # The last of several exceptions ended the process; of all else the first tells most.
            if (event.failure, rank) in found and event.failure != "exception":
                continue
            known = FAILURES[event.failure]
            went_on = one.found.attempt < last_attempt or _steps_after(offsets, event) >= _WENT_ON
            found[(event.failure, rank)] = Failure(
                event.failure,
                event.text,
                known.advice,
                one.found.source,
                event.line,
                rank,
                known.fatal and not went_on,
            )
    return tuple(found.values())[:_MAX_FAILURES]


def process_ranks(scanned: Sequence[Scanned]) -> dict[tuple[str, str], int]:
    """Returns the rank of each (source, absl thread id) that printed `JAX process: R / N`."""
    return {
        (one.found.source, event.thread): event.number
        for one in scanned
        for event in one.events
        if event.kind == "process" and event.number is not None and event.thread
    }


def max_steps_of(scanned: Sequence[Scanned]) -> int | None:
    """Returns how many steps the run was to do by its own words, the last ones if there are several."""
    said = [one.found.total_steps for one in scanned if one.found.total_steps is not None]
    said += [
        event.number
        for one in scanned
        for event in one.events
        if event.number is not None
        and (event.kind == "max_steps" or (event.kind == "end" and "max_steps=" in event.text))
    ]
    return said[-1] if said else None


def _end_ranks(scanned: Sequence[Scanned]) -> set[int | None]:
    """Returns the ranks that printed the end marker as their last words; None for one without a label."""
    ranks: set[int | None] = set()
    processes = process_ranks(scanned)
    for one in scanned:
        offsets = _offsets(one)
        for event in one.events:
            if event.kind == "end" and _steps_after(offsets, event) <= _LATE_LINES:
                rank = one.found.rank if event.rank is None else event.rank
                ranks.add(processes.get((one.found.source, event.thread)) if rank is None else rank)
    return ranks


def ranks_of(scanned: Sequence[Scanned], steps: Sequence[Step]) -> tuple[RankLog, ...]:
    """Returns one entry for each rank that printed a step, or that a file's name tells of."""
    counts: dict[Who, int] = {}
    sources: dict[Who, dict[str, None]] = {}
    nodes: dict[Who, str | None] = {}
    for (rank, node, source), group in itertools.groupby(steps, key=_PRINTED_BY):
        key = (rank, None) if rank is not None else (None, node)
        counts[key] = counts.get(key, 0) + sum(1 for _ in group)
        sources.setdefault(key, {})[source] = None
        nodes[key] = node
    for one in scanned:
        if one.found.rank is not None:
            key: Who = (one.found.rank, None)
            sources.setdefault(key, {})[one.found.source] = None
            nodes.setdefault(key, one.found.node)
    ended = _end_ranks(scanned)
    ordered = sorted(sources, key=lambda key: (key[0] is None, key[0] or 0, key[1] or ""))
    return tuple(
        RankLog(key[0], nodes.get(key), counts.get(key, 0), key[0] in ended, tuple(sources[key]))
        for key in ordered
    )


def ended(
    scanned: Sequence[Scanned],
    ranks: Sequence[RankLog],
    format: Format | None,
    steps: Sequence[Step],
    max_steps: int | None,
) -> bool | None:
    """Returns whether the run came to its own end; None if its format cannot say."""
    if format is None:
        return False
    if format.name == "nccl_tests":
        return any(table.avg_busbw_gb_per_s is not None for one in scanned for table in one.found.tables)
    if format.name in _EACH_RANK_ENDS:
        return bool(ranks) and all(rank.ended for rank in ranks)
    if _end_ranks(scanned) or any(one.found.last_of_all for one in scanned):
        return True
    if format.name in _NO_END_MARKER:
        return None if max_steps is None else len({step.step for step in steps}) >= max_steps
    return False
