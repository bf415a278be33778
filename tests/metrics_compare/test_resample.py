"""The block bootstrap: its error is that of the centre of an autocorrelated series."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from cloudai_run.metrics.resample import (
    MIN_STEPS,
    block_length,
    centre,
    centre_error,
    lag1_autocorrelation,
)
from tests.metrics_compare.runs import step_times


def test_centre_is_the_mean_of_the_middle_half() -> None:
    assert centre([1.0]) == 1.0
    assert centre([1.0, 2.0, 6.0]) == 3.0
    assert centre([9.0, 1.0, 2.0, 3.0]) == 2.5
    assert centre([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1000.0]) == 4.5


def test_centre_does_not_see_a_fifth_of_slow_steps() -> None:
    times = [1.0 + 0.001 * (index % 7) for index in range(50)]
    slow = [10.0 if index % 5 == 0 else value for index, value in enumerate(times)]
    assert centre(slow) == pytest.approx(centre(times), rel=2e-3)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_autocorrelation_is_found_without_bias(rho: float) -> None:
    generator = random.Random(5)
    found = [
        lag1_autocorrelation(step_times(generator, 50, noise=0.01, autocorrelation=rho)) for _ in range(300)
    ]
    # Negative estimates are cut off at 0, so independent steps read a little high.
    assert statistics.fmean(found) == pytest.approx(rho, abs=0.07)


def test_autocorrelation_of_constant_and_short_series_is_zero() -> None:
    assert lag1_autocorrelation([2.0] * 10) == 0.0
    assert lag1_autocorrelation([2.0, 3.0]) == 0.0


def test_blocks_grow_with_autocorrelation_and_stay_within_a_third() -> None:
    assert block_length(50, 0.0) == 1
    assert block_length(50, 0.5) == 6
    assert block_length(50, 0.8) == 12
    assert block_length(50, 0.95) == 16
    assert block_length(5, 0.95) == 1


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_error_is_the_spread_of_the_centre_over_many_runs(rho: float) -> None:
    generator = random.Random(11)
    centres: list[float] = []
    variances: list[float] = []
    for _ in range(500):
        logs = [math.log(value) for value in step_times(generator, 50, noise=0.02, autocorrelation=rho)]
        error = centre_error(logs, resamples=50)
        assert error is not None
        centres.append(centre(logs))
        variances.append(error.standard_error**2)
    truth = statistics.stdev(centres)
    assert math.sqrt(statistics.fmean(variances)) == pytest.approx(truth, rel=0.2)


def test_too_few_steps_have_no_error() -> None:
    assert centre_error([1.0] * (MIN_STEPS - 1)) is None
    assert centre_error([1.0, 2.0, 3.0, 2.0, 1.0]) is not None


def test_same_values_and_seed_give_the_same_error() -> None:
    times = step_times(random.Random(1))
    assert centre_error(times, seed=3) == centre_error(times, seed=3)
    assert centre_error(times, seed=3) != centre_error(times, seed=4)


def test_long_series_take_fewer_resamples_and_stay_quick() -> None:
    error = centre_error(step_times(random.Random(2), 20_000), resamples=400)
    assert error is not None
    assert error.standard_error == pytest.approx(10 * 0.01 * math.sqrt(3 / 20_000), rel=0.5)


def test_constant_steps_have_no_spread() -> None:
    error = centre_error([2.0] * 20)
    assert error is not None
    assert error.standard_error == 0.0
