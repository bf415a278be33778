"""Is one side really slower? The test behind each verdict.

With several runs a side the run is the unit: each gives one number, the centre of the logarithms of its
steps, and the two groups are compared by a t interval with pooled variance. Runs of one configuration
differ among themselves (other nodes, other neighbours on the fabric), and three runs hold just the
information of three numbers, however many steps each has; a bootstrap over three runs would call false
differences far more often than promised (docs/metrics.md has the simulation).

With one run a side nothing is known about that spread. The interval then rests on a block bootstrap within
each run plus an assumed run-to-run spread, and both are said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from cloudai_run.metrics.resample import CentreError
from cloudai_run.metrics.student import t_quantile

Basis = Literal["runs", "steps", "none"]


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What a difference must show to be called one.

    Attributes:
        min_effect: Smallest relative change that matters (0.01: 1 %).
        confidence: Of the intervals, two-sided.
        run_spread: Relative standard deviation between runs of one configuration that is assumed where
            each side has one run only.
    """

    min_effect: float = 0.01
    confidence: float = 0.95
    run_spread: float = 0.01


@dataclass(frozen=True, kw_only=True)
class RunValue:
    """One run's value of one metric: its logarithm, and how far off the steps' spread may have put it.

    Attributes:
        error: Of `log_value`; None where the run gives a single number or too few steps.
    """

    log_value: float
    error: CentreError | None = None


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The relative change from one side to the other (0.03: 3 % more), with its interval.

    Attributes:
        low, high: The interval that the verdict rests on; None where the data allow none.
        within_low, within_high: The interval from the steps' spread alone, for basis "steps".
        basis: "runs": several runs on at least one side; "steps": one run a side; "none": no interval.
        df: Degrees of freedom of the interval.
    """

    change: float
    low: float | None
    high: float | None
    basis: Basis
    within_low: float | None = None
    within_high: float | None = None
    df: float | None = None

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def effect(before: Sequence[RunValue], after: Sequence[RunValue], options: CompareOptions) -> Effect:
    """Returns the relative change from `before` to `after`, each at least one run."""
    difference = fmean(run.log_value for run in after) - fmean(run.log_value for run in before)
    if len(before) + len(after) > 2:
        return _over_runs(before, after, difference, options)
    return _within_runs(before[0], after[0], difference, options)


def _over_runs(
    before: Sequence[RunValue], after: Sequence[RunValue], difference: float, options: CompareOptions
) -> Effect:
    df = len(before) + len(after) - 2
    variance = (_sum_of_squares(before) + _sum_of_squares(after)) / df
    # Runs cannot be more alike than the spread of their own steps allows: copies of one log are no evidence.
    known = [run.error.standard_error**2 for run in (*before, *after) if run.error is not None]
    variance = max(variance, fmean(known) if known else 0.0)
    half = t_quantile((1 + options.confidence) / 2, df) * math.sqrt(
        variance * (1 / len(before) + 1 / len(after))
    )
    low, high = _interval(difference, half)
    return Effect(change=math.expm1(difference), low=low, high=high, basis="runs", df=df)


def _within_runs(before: RunValue, after: RunValue, difference: float, options: CompareOptions) -> Effect:
    if before.error is None or after.error is None:
        return Effect(change=math.expm1(difference), low=None, high=None, basis="none")
    parts = [(run.standard_error**2, run.df) for run in (before.error, after.error)]
    within = math.fsum(variance for variance, _ in parts)
    # Satterthwaite's degrees of freedom; the assumed spread is taken as known and adds none.
    spent = math.fsum(variance**2 / df for variance, df in parts)
    total = within + 2 * options.run_spread**2
    level = (1 + options.confidence) / 2
    low, high = _interval(difference, _half_width(total, spent, level))
    within_low, within_high = _interval(difference, _half_width(within, spent, level))
    return Effect(
        change=math.expm1(difference),
        low=low,
        high=high,
        basis="steps",
        within_low=within_low,
        within_high=within_high,
        df=_degrees(total, spent),
    )


def _sum_of_squares(runs: Sequence[RunValue]) -> float:
    mean = fmean(run.log_value for run in runs)
    return math.fsum((run.log_value - mean) ** 2 for run in runs)


def _half_width(variance: float, spent: float, level: float) -> float:
    return 0.0 if variance == 0 else t_quantile(level, _degrees(variance, spent)) * math.sqrt(variance)


def _degrees(variance: float, spent: float) -> float:
    """Degrees of freedom, rounded down to a tenth so that equal ones share a quantile; at least 1."""
    if spent == 0 or variance**2 / spent > 1e6:
        return 1e6
    return max(1.0, math.floor(variance**2 / spent * 10) / 10)


def _interval(center: float, half: float) -> tuple[float, float]:
    return math.expm1(center - half), math.expm1(center + half)
