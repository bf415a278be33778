"""Statistics of a series: known values, coverage of the interval, drift, outliers, and what few values say."""

from __future__ import annotations

import random
import statistics
import time

import pytest

from cloudai_run.metrics.statistics import describe, median_interval, percentile, trend_of


def autocorrelated(
    generator: random.Random, n: int, rho: float, cv: float = 0.02, drift: float = 0.0
) -> list[float]:
    """Returns an AR(1) series about 1 whose mean grows by `drift` over its length."""
    values: list[float] = []
    noise = generator.gauss(0, 1)
    for k in range(n):
        noise = rho * noise + generator.gauss(0, 1) * (1 - rho * rho) ** 0.5
        values.append(1 + cv * noise + drift * k / n)
    return values


def test_known_values() -> None:
    found = describe([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (found.count, found.median, found.mean, found.min, found.max) == (5, 3.0, 3.0, 1.0, 5.0)
    assert found.std == pytest.approx(statistics.stdev([1, 2, 3, 4, 5]))
    assert found.cv == pytest.approx(found.std / 3 if found.std else None)
    assert (found.p5, found.p95) == (pytest.approx(1.2), pytest.approx(4.8))
    assert found.note == "only 5 values: spread and interval are rough"


def test_percentiles_are_those_of_numpy() -> None:
    ordered = sorted([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
    # numpy.percentile([3, 1, 4, 1, 5, 9, 2, 6], [0, 5, 25, 50, 95, 100])
    expected = {0: 1.0, 5: 1.0, 25: 1.75, 50: 3.5, 95: 7.95, 100: 9.0}
    assert {share: percentile(ordered, share / 100) for share in expected} == pytest.approx(expected)


def test_one_value_has_no_spread() -> None:
    found = describe([2.0])
    assert (found.median, found.std, found.cv, found.median_low, found.trend, found.outliers) == (
        2.0,
        None,
        None,
        None,
        None,
        (),
    )
    assert found.note == "one value: no spread can be told"


def test_constant_values() -> None:
    found = describe([2.0] * 30)
    assert (found.std, found.cv, found.median_low, found.median_high) == (0.0, 0.0, 2.0, 2.0)
    assert found.trend is not None
    assert (found.trend.significant, found.trend.slope_per_step, found.trend.p_value) == (False, 0.0, 1.0)
    assert found.outliers == ()


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_what_cannot_be_described(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one value, and finite ones"):
        describe(values)


def test_steps_and_values_must_match() -> None:
    with pytest.raises(ValueError, match="2 values and 1 step numbers"):
        describe([1.0, 2.0], steps=[1])


def test_the_same_seed_gives_the_same_interval() -> None:
    values = autocorrelated(random.Random(1), 50, 0.3)
    assert describe(values, seed=3) == describe(values, seed=3)
    assert describe(values, seed=3) != describe(values, seed=4)


@pytest.mark.parametrize(
    ("n", "rho", "least"),
    [(5, 0.0, 0.92), (16, 0.3, 0.88), (50, 0.0, 0.92), (50, 0.6, 0.87), (90, 0.3, 0.91)],
)
def test_the_interval_of_the_median_covers_it(n: int, rho: float, least: float) -> None:
    generator = random.Random(11)
    runs = 300
    covered = 0
    for seed in range(runs):
        found = describe(autocorrelated(generator, n, rho), resamples=200, seed=seed)
        assert found.median_low is not None
        assert found.median_high is not None
        covered += found.median_low <= 1 <= found.median_high
    assert covered / runs >= least


def test_an_autocorrelated_series_has_the_wider_interval() -> None:
    generator = random.Random(2)

    def width(rho: float) -> float:
        widths: list[float] = []
        for seed in range(40):
            found = describe(autocorrelated(generator, 60, rho), resamples=200, seed=seed)
            assert found.median_low is not None
            assert found.median_high is not None
            widths.append(found.median_high - found.median_low)
        return statistics.fmean(widths)

    assert width(0.7) > 1.5 * width(0.0)


def test_too_few_values_for_an_interval() -> None:
    assert median_interval([1.0, 2.0], 1, confidence=0.95, resamples=100, seed=0) == (None, None)


def test_drift_is_found_and_noise_is_not() -> None:
    generator = random.Random(5)
    drifting = [
        describe(autocorrelated(generator, 90, 0.3, 0.01, drift=0.03), resamples=100) for _ in range(50)
    ]
    assert sum(found.trend is not None and found.trend.significant for found in drifting) >= 48
    changes = [found.trend.relative_change for found in drifting if found.trend]
    assert statistics.fmean(changes) == pytest.approx(0.03, abs=0.004)
    steady = [trend_of(autocorrelated(generator, 90, 0.3), range(90)) for _ in range(300)]
    assert sum(found is not None and found.p_value < 0.05 for found in steady) <= 0.09 * 300
    assert sum(found is not None and found.significant for found in steady) <= 0.02 * 300


def test_slope_is_in_units_a_step() -> None:
    found = trend_of([1.0 + 0.01 * k for k in range(0, 40, 2)], range(0, 40, 2))
    assert found is not None
    assert found.slope_per_step == pytest.approx(0.01)
    assert found.relative_change == pytest.approx(0.38 / 1.19)
    assert found.significant


def test_drift_of_a_long_series() -> None:
    found = trend_of(autocorrelated(random.Random(3), 20_000, 0.5, drift=0.05), range(20_000))
    assert found is not None
    assert found.relative_change == pytest.approx(0.05, abs=0.005)
    assert found.significant


def test_no_trend_of_few_values() -> None:
    assert trend_of([1.0] * 7, range(7)) is None


def test_outliers() -> None:
    values = [1.0 + 0.01 * (k % 5) for k in range(50)]
    values[20] = 1.5
    values[30] = 0.5
    found = describe(values, steps=range(100, 150))
    assert [(outlier.step, outlier.value) for outlier in found.outliers] == [(120, 1.5), (130, 0.5)]
    assert all(outlier.score > 5 for outlier in found.outliers)


def test_rounding_makes_no_outliers() -> None:
    assert describe([3.684] * 30 + [3.685] * 3).outliers == ()
    assert [outlier.step for outlier in describe([3.684] * 30 + [3.9]).outliers] == [30]


def test_ten_thousand_values_take_less_than_two_seconds() -> None:
    values = autocorrelated(random.Random(4), 10_000, 0.3)
    start = time.process_time()
    describe(values)
    assert time.process_time() - start < 2
