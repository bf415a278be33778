"""Two or more sides, each one or several runs of a configuration, beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from cloudai_run.metrics.compare_config import Difference, run_differences
from cloudai_run.metrics.compare_stats import CompareOptions, Effect, RunValue, effect
from cloudai_run.metrics.definitions import METRICS, Metric
from cloudai_run.metrics.resample import MIN_STEPS, CentreError, centre, centre_error
from cloudai_run.metrics.run_data import RunData, Side

Word = Literal["faster", "slower", "higher", "lower", "no difference", "not tested"]
# The metrics that fall as the step time rises by the same factor.
_INVERSE_OF_TIME = frozenset(
    name for name, metric in METRICS.items() if metric.from_step_time and metric.better == "higher"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric on two sides.

    Attributes:
        effect: None where a side has no value.
        word: The verdict.
        reason: Why it is "no difference" or "not tested", or what the verdict rests on; one clause.
    """

    metric: Metric
    before: float | None
    after: float | None
    effect: Effect | None
    word: Word
    reason: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One side against the first one."""

    before: Side
    after: Side
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    def row(self, metric: str) -> Row | None:
        return next((row for row in self.rows if row.metric.name == metric), None)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All sides, each after the first against the first."""

    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    options: CompareOptions


def compare(sides: Sequence[Side], options: CompareOptions | None = None) -> Comparison:
    """Compares each side after the first with the first."""
    options = options or CompareOptions()
    spreads = [_StepSpread.of_side(side) for side in sides]
    pairs = [
        _compare_pair(sides[0], side, spreads[0], spread, options)
        for side, spread in zip(sides[1:], spreads[1:], strict=True)
    ]
    return Comparison(sides=tuple(sides), pairs=tuple(pairs), options=options)


@dataclass(frozen=True, kw_only=True)
class _StepSpread:
    """One run's steps: how far the centre of their logarithms lies from that of the median, and its error."""

    offset: float
    error: CentreError | None

    @classmethod
    def of_side(cls, side: Side) -> tuple[_StepSpread, ...]:
        return tuple(cls.of_run(run) for run in side.runs)

    @classmethod
    def of_run(cls, run: RunData) -> _StepSpread:
        logs = [math.log(seconds) for seconds in run.step_time_s]
        if len(logs) < MIN_STEPS:
            return cls(offset=0.0, error=None)
        return cls(offset=centre(logs) - math.log(median(run.step_time_s)), error=centre_error(logs))


def _compare_pair(
    before: Side,
    after: Side,
    spread_before: Sequence[_StepSpread],
    spread_after: Sequence[_StepSpread],
    options: CompareOptions,
) -> Pair:
    rows: list[Row] = []
    invalid = [side.name for side in (before, after) if any(run.status == "invalid" for run in side.runs)]
    for metric in METRICS.values():
        old, new = before.value(metric.name), after.value(metric.name)
        if (old is None and new is None) or (metric.full_runs_only and (before.smoke or after.smoke)):
            continue
        change = None
        if old is not None and new is not None and _all_positive(before, after, metric):
            change = effect(
                _run_values(before, spread_before, metric), _run_values(after, spread_after, metric), options
            )
        word, reason = _verdict(metric, change, options)
        if old is None or new is None:
            reason = f"no value in {(before if old is None else after).name}"
        elif invalid:
            word, reason = "not tested", f"{' and '.join(invalid)} is invalid"
        rows.append(Row(metric=metric, before=old, after=new, effect=change, word=word, reason=reason))
    differences = tuple(run_differences(before.runs[0].facts, after.runs[0].facts))
    notes = tuple(_notes(before, after, rows, options))
    return Pair(before=before, after=after, rows=tuple(rows), differences=differences, notes=notes)


def _all_positive(before: Side, after: Side, metric: Metric) -> bool:
    return all(0 < value < math.inf for value in _values(before, metric) + _values(after, metric))


def _values(side: Side, metric: Metric) -> list[float]:
    return [run.values[metric.name] for run in side.runs]


def _run_values(side: Side, spreads: Sequence[_StepSpread], metric: Metric) -> list[RunValue]:
    if not metric.from_step_time:
        return [RunValue(log_value=math.log(value)) for value in _values(side, metric)]
    sign = -1 if metric.name in _INVERSE_OF_TIME else 1
    return [
        RunValue(log_value=math.log(value) + sign * spread.offset, error=spread.error)
        for value, spread in zip(_values(side, metric), spreads, strict=True)
    ]


def _verdict(metric: Metric, change: Effect | None, options: CompareOptions) -> tuple[Word, str]:
    if change is None:
        return "not tested", "a value is not a positive number"
    if change.low is None or change.high is None:
        few = f"fewer than {MIN_STEPS} steps" if metric.from_step_time else "one value a side"
        return "not tested", few
    smallest = options.min_effect
    if change.excludes_zero and abs(change.change) >= smallest:
        rose = change.change > 0
        word: Word = "higher" if rose else "lower"
        if metric.speed:
            word = "faster" if rose == (metric.better == "higher") else "slower"
        return word, "within these runs" if change.basis == "steps" else ""
    if -smallest < change.low and change.high < smallest:
        return "no difference", f"within ±{_percent(smallest)}"
    if change.excludes_zero:
        return "no difference", f"less than {_percent(smallest)}"
    return "no difference", "the interval holds 0"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:g} %"


def _notes(before: Side, after: Side, rows: Sequence[Row], options: CompareOptions) -> list[str]:
    notes = [note for side in (before, after) for note in _side_notes(side)]
    notes += _comparability(before, after)
    step = next((row for row in rows if row.metric.name == "step_time_s"), None)
    if step is not None and step.effect is not None and step.effect.basis == "steps":
        notes.append(_one_run_note(step.effect, before, after, options))
    for row in rows:
        side = before if row.before is None else after if row.after is None else None
        if side is not None:
            notes.append(
                f"{row.metric.name} has no value in {side.name}: {side.why_missing(row.metric.name)}"
            )
    return notes


def _one_run_note(change: Effect, before: Side, after: Side, options: CompareOptions) -> str:
    within = ""
    if change.within_low is not None and change.within_high is not None:
        within = (
            f"; within these runs alone {after.name} is at {change.change:+.2%} "
            f"[{change.within_low:+.2%}, {change.within_high:+.2%}] of {before.name}'s step time"
        )
    return (
        "one run a side: the run-to-run spread is unknown, and the intervals assume "
        f"{_percent(options.run_spread)} of it (--run-spread){within}"
    )


def _side_notes(side: Side) -> list[str]:
    notes: list[str] = []
    for run in side.runs:
        if run.status != "valid":
            notes.append(f"{side.name}: {run.label} is {run.status}: {'; '.join(run.reasons)}")
    if side.smoke:
        notes.append(f"{side.name} is a CPU smoke run: not a benchmark")
    changed = {
        difference.path
        for run in side.runs[1:]
        for difference in run_differences(side.runs[0].facts, run.facts)
        if difference.category != "nodes"
    }
    if changed:
        paths = ", ".join(sorted(changed)[:4])
        notes.append(f"the runs of {side.name} are not of one configuration: they differ in {paths}")
    return notes


def _comparability(before: Side, after: Side) -> list[str]:
    notes: list[str] = []
    for name in ("global_batch_size", "seq_length", "num_gpus", "precision", "gpu_model"):
        old, new = (getattr(side.runs[0].shape, name) for side in (before, after))
        if old is not None and new is not None and old != new:
            notes.append(f"{name} differs: {old} in {before.name}, {new} in {after.name}")
    work = [side.runs[0].shape for side in (before, after)]
    if (work[0].global_batch_size, work[0].seq_length) != (work[1].global_batch_size, work[1].seq_length):
        notes.append(
            "a step is not the same work on both sides: compare tokens_per_s_per_gpu, not step_time_s"
        )
    return notes
