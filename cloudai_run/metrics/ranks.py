"""How even the ranks of a run are: the slowest rank and node, the spread, stragglers by name."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from cloudai_run.metrics.samples import ParsedLog, RankSpread, RankSummary, Step, Window
from cloudai_run.metrics.series import Who, who

STRAGGLER_SHARE = 0.05
STRAGGLER_SCORE = 5.0
_MAD_TO_STD = 1.4826


def rank_spread(log: ParsedLog, window: Window) -> RankSpread | None:
    """Returns the spread over the ranks inside the window; None where fewer than 2 ranks print step times.

    A straggler is at least 5 % slower than the median of the ranks and, with 4 ranks or more, 5 robust
    standard deviations of the ranks away from it.
    """
    numbers = {step.step for step in window.steps}
    by_rank: dict[Who, list[Step]] = {}
    for step in log.steps:
        if step.step in numbers and step.step_time_s is not None:
            by_rank.setdefault(who(step), []).append(step)
    if len(by_rank) < 2:
        return None
    medians = {key: statistics.median(_times(steps)) for key, steps in by_rank.items()}
    center = statistics.median(medians.values())
    deviation = _MAD_TO_STD * statistics.median(abs(value - center) for value in medians.values())
    needed = STRAGGLER_SHARE * center
    if len(medians) >= 4:
        needed = max(needed, STRAGGLER_SCORE * deviation)
    summaries = sorted(
        (
            RankSummary(
                rank=key[0],
                node=by_rank[key][0].node,
                count=len(by_rank[key]),
                median_step_time_s=median,
                relative=median / center,
                straggler=median - center >= needed,
            )
            for key, median in medians.items()
        ),
        key=lambda summary: (-summary.median_step_time_s, summary.rank or 0),
    )
    slowest = summaries[0]
    return RankSpread(
        ranks=tuple(summaries),
        slowest_rank=slowest.rank,
        slowest_node=slowest.node,
        spread=(slowest.median_step_time_s - summaries[-1].median_step_time_s) / center,
        stragglers=tuple(summary for summary in summaries if summary.straggler),
        nodes=_by_node(summaries),
    )


def _times(steps: Iterable[Step]) -> list[float]:
    return [step.step_time_s for step in steps if step.step_time_s is not None]


def _by_node(summaries: Iterable[RankSummary]) -> dict[str, float]:
    """Returns the median over each node's ranks, slowest first."""
    nodes: dict[str, list[float]] = {}
    for summary in summaries:
        if summary.node is not None:
            nodes.setdefault(summary.node, []).append(summary.median_step_time_s)
    medians = {node: statistics.median(times) for node, times in nodes.items()}
    return dict(sorted(medians.items(), key=lambda item: -item[1]))
