"""A series of step times in numbers: spread, an interval for the median, drift, outliers. Plain Python.

Steps are autocorrelated, so the interval comes from a block bootstrap, and the test for drift counts an
autocorrelated series as the shorter one that it is worth.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence

from cloudai_run.metrics.resample import block_length, lag1_autocorrelation
from cloudai_run.metrics.samples import Outlier, Statistics, Trend
from cloudai_run.metrics.student import t_quantile

FEW_VALUES = 10
OUTLIER_SCORE = 5.0
# MAD of a normal distribution times this is its standard deviation.
_MAD_TO_STD = 1.4826
# Logs print about four digits, so a spread below this share of the median is rounding.
_RESOLUTION = 1e-3
_TREND_VALUES = 8
_TREND_POINTS = 300
_TREND_P_VALUE = 0.01
_TREND_CHANGE = 0.01
_BOOTSTRAP_WORK = 2_000_000


def describe(
    values: Sequence[float],
    *,
    steps: Sequence[int] | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Statistics:
    """Returns the statistics of a series.

    Args:
        values: finite values in the order of the steps, at least one.
        steps: the values' step numbers; by default 0, 1, 2 ...
        confidence: of the median's interval.
        resamples: bootstrap draws; fewer (at least 100) are made of a long series.
        seed: the same values and seed give the same interval.

    Raises:
        ValueError: no value, a value that is not finite, or another number of steps than of values.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("describe() needs at least one value, and finite ones")
    numbers = list(range(len(values))) if steps is None else list(steps)
    if len(numbers) != len(values):
        raise ValueError(f"{len(values)} values and {len(numbers)} step numbers")
    n = len(values)
    ordered = sorted(values)
    mean = statistics.fmean(values)
    std = statistics.stdev(values) if n > 1 else None
    length = block_length(n, lag1_autocorrelation(values))
    low, high = median_interval(values, length, confidence=confidence, resamples=resamples, seed=seed)
    return Statistics(
        count=n,
        median=statistics.median(ordered),
        mean=mean,
        std=std,
        p5=percentile(ordered, 0.05),
        p95=percentile(ordered, 0.95),
        cv=None if std is None or mean == 0 else std / abs(mean),
        min=ordered[0],
        max=ordered[-1],
        median_low=low,
        median_high=high,
        confidence=confidence,
        block_length=length,
        trend=trend_of(values, numbers),
        outliers=outliers_of(values, numbers),
        note=_note(n),
    )


def _note(n: int) -> str | None:
    if n == 1:
        return "one value: no spread can be told"
    if n < FEW_VALUES:
        return f"only {n} values: spread and interval are rough"
    return None


def percentile(ordered: Sequence[float], share: float) -> float:
    """Returns the percentile of sorted values, linear between the two closest ranks (0 <= share <= 1)."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def bootstrap_medians(
    values: Sequence[float], length: int, *, resamples: int = 1000, seed: int = 0
) -> list[float]:
    """Returns the medians of resampled series, made of whole blocks of `length` neighbours (circular)."""
    n = len(values)
    wrapped = [*values, *values[: length - 1]]
    blocks = [wrapped[start : start + length] for start in range(n)]
    draws = max(100, min(resamples, _BOOTSTRAP_WORK // n))
    choices = random.Random(seed).choices
    per_sample = math.ceil(n / length)
    medians: list[float] = []
    for _ in range(draws):
        sample = [value for block in choices(blocks, k=per_sample) for value in block][:n]
        sample.sort()
        medians.append((sample[(n - 1) // 2] + sample[n // 2]) / 2)
    return medians


def median_interval(
    values: Sequence[float], length: int, *, confidence: float, resamples: int, seed: int
) -> tuple[float | None, float | None]:
    """Returns the bootstrap interval of the median, (None, None) below 3 values.

    Percentiles of the resampled medians, widened about the median as few blocks ask for: by
    sqrt(blocks / (blocks - 1)), the share of the variance that drawing them loses, and by the ratio of
    Student's t to the normal quantile with blocks - 1 degrees of freedom.
    """
    n = len(values)
    if n < 3:
        return None, None
    medians = sorted(bootstrap_medians(values, length, resamples=resamples, seed=seed))
    center = statistics.median(values)
    blocks = n / length
    upper = (1 + confidence) / 2
    widening = math.sqrt(blocks / (blocks - 1))
    widening *= t_quantile(upper, blocks - 1) / statistics.NormalDist().inv_cdf(upper)
    low = center - (center - percentile(medians, 1 - upper)) * widening
    high = center + (percentile(medians, upper) - center) * widening
    return min(low, center), max(high, center)


def outliers_of(values: Sequence[float], steps: Sequence[int]) -> tuple[Outlier, ...]:
    """Returns the values more than `OUTLIER_SCORE` robust standard deviations away from the median."""
    center = statistics.median(values)
    spread = _MAD_TO_STD * statistics.median(abs(value - center) for value in values)
    scale = max(spread, _RESOLUTION * abs(center))
    if scale == 0:
        return ()
    scored = ((step, value, abs(value - center) / scale) for step, value in zip(steps, values, strict=True))
    return tuple(Outlier(step, value, score) for step, value, score in scored if score > OUTLIER_SCORE)


def trend_of(values: Sequence[float], steps: Sequence[int]) -> Trend | None:
    """Returns the drift over the series, None below 8 values or for a median of 0.

    The slope is Theil and Sen's (the median of the slopes of all pairs). The test is Mann and Kendall's; its
    variance is multiplied by (1 + r) / (1 - r), with r the lag-1 autocorrelation of what the slope leaves
    (Yue and Wang 2004). A long series is first made 300 medians of neighbours.
    """
    center = statistics.median(values)
    if len(values) < _TREND_VALUES or center == 0:
        return None
    x, y = _thinned(steps, values)
    n = len(x)
    slopes: list[float] = []
    sign = 0
    for i in range(n - 1):
        x0, y0 = x[i], y[i]
        for j in range(i + 1, n):
            difference = y[j] - y0
            slopes.append(difference / (x[j] - x0))
            sign += (difference > 0) - (difference < 0)
    slope = statistics.median(slopes)
    rest = [value - slope * step for step, value in zip(x, y, strict=True)]
    r = lag1_autocorrelation(rest)
    ties = sum(count * (count - 1) * (2 * count + 5) for count in _tie_counts(y))
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18 * (1 + r) / (1 - r)
    score = max(abs(sign) - 1, 0) / math.sqrt(variance) if variance > 0 else 0.0
    p_value = 2 * (1 - statistics.NormalDist().cdf(score))
    change = slope * (steps[-1] - steps[0]) / center
    return Trend(slope, change, p_value, p_value < _TREND_P_VALUE and abs(change) >= _TREND_CHANGE)


def _thinned(steps: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    if len(values) <= _TREND_POINTS:
        return [float(step) for step in steps], list(values)
    edges = [round(k * len(values) / _TREND_POINTS) for k in range(_TREND_POINTS + 1)]
    pieces = [slice(low, high) for low, high in itertools.pairwise(edges)]
    return (
        [statistics.fmean(steps[piece]) for piece in pieces],
        [statistics.median(values[piece]) for piece in pieces],
    )


def _tie_counts(values: Sequence[float]) -> list[int]:
    counts: dict[float, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return [count for count in counts.values() if count > 1]
