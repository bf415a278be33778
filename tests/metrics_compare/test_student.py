"""Student's t against tabled quantiles (Abramowitz and Stegun, table 26.10) and its own symmetry."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from cloudai_run.metrics.student import t_cdf, t_quantile


@pytest.mark.parametrize(
    ("df", "p975", "p995"),
    [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (4, 2.776, 4.604),
        (9, 2.262, 3.250),
        (30, 2.042, 2.750),
        (120, 1.980, 2.617),
    ],
)
def test_tabled_quantiles(df: float, p975: float, p995: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(p975, abs=5e-4)
    assert t_quantile(0.995, df) == pytest.approx(p995, abs=5e-4)


def test_one_degree_is_the_cauchy_distribution() -> None:
    for value in (-3.0, -0.5, 0.0, 0.2, 7.0):
        assert t_cdf(value, 1) == pytest.approx(0.5 + math.atan(value) / math.pi, abs=1e-12)


def test_two_degrees_have_a_closed_form() -> None:
    for value in (-2.0, 0.3, 5.0):
        assert t_cdf(value, 2) == pytest.approx(0.5 + value / (2 * math.sqrt(2 + value**2)), abs=1e-12)


def test_many_degrees_are_the_normal_distribution() -> None:
    assert t_quantile(0.975, 1e9) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-9)
    assert t_quantile(0.975, 1e5) == pytest.approx(1.95999, abs=1e-4)


def test_symmetry_and_inverse_at_fractional_degrees() -> None:
    for df in (0.7, 1.3, 3.9, 17.2):
        for probability in (0.6, 0.9, 0.99):
            value = t_quantile(probability, df)
            assert t_cdf(value, df) == pytest.approx(probability, abs=1e-10)
            assert t_quantile(1 - probability, df) == pytest.approx(-value)


def test_out_of_range() -> None:
    with pytest.raises(ValueError, match="probability must lie between 0 and 1"):
        t_quantile(1.0, 3)
    with pytest.raises(ValueError, match="df must be positive"):
        t_cdf(1.0, 0)
