"""The centre of one run's steps and how far off it may be, by a block bootstrap.

Neighbouring steps are alike (thermal state, other jobs on the fabric), so resampling single steps would
claim more information than the run holds. Whole blocks of neighbouring steps are drawn instead, wrapped
around the end of the series so that each step is as likely as any other (circular block bootstrap,
Politis and Romano 1992). The block's length follows the rule of Politis and White (2004), with the
spectrum of an AR(1) process of the measured lag-1 autocorrelation in place of their estimate, which needs
longer series than benchmarks have.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# With fewer steps neither the autocorrelation nor the spread can be told.
MIN_STEPS = 5
DEFAULT_RESAMPLES = 400
_LARGEST_WORK = 1_000_000
_FEWEST_RESAMPLES = 100
_LARGEST_LOSS = 0.5


@dataclass(frozen=True, kw_only=True)
class CentreError:
    """The uncertainty of a series' centre.

    Attributes:
        standard_error: In the series' unit.
        df: Degrees of freedom: independent blocks less one.
        block_length: Steps a block.
        autocorrelation: Lag-1 autocorrelation, corrected for the bias of short series.
    """

    standard_error: float
    df: float
    block_length: int
    autocorrelation: float


def centre(values: Sequence[float]) -> float:
    """Returns the interquartile mean: the mean of the values without the lowest and the highest quarter.

    Like the median it does not see a few slow steps; unlike the median it is nearly as precise as the mean
    and is not stuck on the digits that the log prints.
    """
    return _centre_of_sorted(sorted(values))


def _centre_of_sorted(values: list[float]) -> float:
    cut = len(values) // 4
    return sum(values[cut : len(values) - cut]) / (len(values) - 2 * cut)


def lag1_autocorrelation(values: Sequence[float]) -> float:
    """Returns the lag-1 autocorrelation, corrected for short series and held within 0 and 0.95.

    The plain estimate is about (1 + 4 rho) / n too low (Marriott and Pope 1954).
    """
    n = len(values)
    if n < 3:
        return 0.0
    mean = statistics.fmean(values)
    deviations = [value - mean for value in values]
    total = math.fsum(d * d for d in deviations)
    if total == 0:
        return 0.0
    plain = math.fsum(a * b for a, b in itertools.pairwise(deviations)) / total
    return min(max(plain + (1 + 4 * plain) / n, 0.0), 0.95)


def block_length(n: int, autocorrelation: float) -> int:
    """Returns the block length for `n` steps, at least 1 and at most a third of the series."""
    rho = autocorrelation
    optimal = (6 * rho**2 / (1 - rho**2) ** 2) ** (1 / 3) * n ** (1 / 3)
    return max(1, min(math.ceil(optimal), n // 3))


def centre_error(
    values: Sequence[float], *, seed: int = 0, resamples: int = DEFAULT_RESAMPLES
) -> CentreError | None:
    """Returns the bootstrap standard error of the centre of a run's steps; None below `MIN_STEPS` steps.

    The variance is widened by blocks / (blocks - 1), the share that resampling few blocks loses, and by what
    cutting the series into blocks loses: for AR(1) steps the share 2 rho / (1 - rho^2) / length (Kuensch 1989).
    The same values and seed give the same result.
    """
    n = len(values)
    if n < MIN_STEPS:
        return None
    rho = lag1_autocorrelation(values)
    length = block_length(n, rho)
    blocks = n / length
    draws = min(resamples, max(_FEWEST_RESAMPLES, _LARGEST_WORK // n))
    centres = _resampled_centres(values, length, draws, random.Random(seed))
    lost = min(2 * rho / (1 - rho**2) / length, _LARGEST_LOSS)
    variance = statistics.pvariance(centres) * blocks / (blocks - 1) / (1 - lost)
    return CentreError(
        standard_error=math.sqrt(variance), df=blocks - 1, block_length=length, autocorrelation=rho
    )


def _resampled_centres(
    values: Sequence[float], length: int, resamples: int, generator: random.Random
) -> list[float]:
    n = len(values)
    wrapped = list(values) + list(values[: length - 1])
    blocks = [wrapped[start : start + length] for start in range(n)]
    per_sample = math.ceil(n / length)
    centres: list[float] = []
    for _ in range(resamples):
        sample = [value for block in generator.choices(blocks, k=per_sample) for value in block][:n]
        sample.sort()
        centres.append(_centre_of_sorted(sample))
    return centres
