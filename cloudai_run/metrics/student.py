"""Student's t distribution in plain Python: what an interval from few samples needs."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
_LARGE_DF = 1e6


def t_cdf(value: float, df: float) -> float:
    """Returns P(T <= value) for Student's t with `df` degrees of freedom (any positive real number)."""
    if df <= 0:
        raise ValueError(f"df must be positive, and it is {df}")
    if df > _LARGE_DF:
        return NormalDist().cdf(value)
    tail = _incomplete_beta(df / (df + value * value), df / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """Returns the value below which Student's t lies with `probability`, 0 < probability < 1."""
    if not 0 < probability < 1:
        raise ValueError(f"probability must lie between 0 and 1, and it is {probability}")
    if probability < 0.5:
        return -t_quantile(1 - probability, df)
    high = 1.0
    while t_cdf(high, df) < probability:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, df) < probability else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_fraction(x, a, b) / a
    return 1 - math.exp(log_front) * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, _away_from_zero(1 - (a + b) * x / (a + 1))
    d = 1 / d
    result = d
    for m in range(1, 1000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d)
            c = _away_from_zero(1 + numerator / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
