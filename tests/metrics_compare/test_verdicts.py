"""Verdicts on simulated runs: seldom false, and a true change of 3 % is found."""

from __future__ import annotations

import math
import random

import pytest

from cloudai_run.metrics.compare import compare
from cloudai_run.metrics.compare_stats import CompareOptions, RunValue, effect
from cloudai_run.metrics.resample import CentreError, centre, centre_error
from cloudai_run.metrics.run_data import make_sides
from tests.metrics_compare.runs import run_data, step_times

OPTIONS = CompareOptions()
PAIRS = 1000


def side(
    generator: random.Random,
    runs: int,
    *,
    shift: float = 0.0,
    spread: float,
    noise: float,
    autocorrelation: float,
) -> list[RunValue]:
    """Runs of 50 steps, each with its own offset, as `compare` reduces them."""
    values: list[RunValue] = []
    for _ in range(runs):
        offset = shift + generator.gauss(0, spread)
        times = step_times(generator, 50, offset=offset, noise=noise, autocorrelation=autocorrelation)
        logs = [math.log(seconds) for seconds in times]
        # With several runs a side the steps' error is only a floor: few resamples are enough.
        resamples = 100 if runs == 1 else 25
        values.append(RunValue(log_value=centre(logs), error=centre_error(logs, resamples=resamples)))
    return values


def called_different(before: list[RunValue], after: list[RunValue]) -> bool:
    change = effect(before, after, OPTIONS)
    return change.excludes_zero and abs(change.change) >= OPTIONS.min_effect


# (runs a side, run-to-run deviation, step noise, autocorrelation). With one run a side the assumed spread of
# 1 % stands in for what cannot be known.
SAME = [
    (3, 0.005, 0.01, 0.5),
    (3, 0.005, 0.02, 0.5),
    (3, 0.01, 0.02, 0.6),
    (2, 0.01, 0.01, 0.5),
    (1, 0.005, 0.02, 0.5),
    (1, 0.0, 0.02, 0.8),
]


@pytest.mark.parametrize(("runs", "spread", "noise", "rho"), SAME)
def test_at_most_one_in_twenty_false_verdicts(runs: int, spread: float, noise: float, rho: float) -> None:
    generator = random.Random(20261201)
    false = sum(
        called_different(
            side(generator, runs, spread=spread, noise=noise, autocorrelation=rho),
            side(generator, runs, spread=spread, noise=noise, autocorrelation=rho),
        )
        for _ in range(PAIRS)
    )
    assert false / PAIRS <= 0.05


@pytest.mark.parametrize(
    ("spread", "noise", "rho"), [(0.005, 0.01, 0.5), (0.005, 0.015, 0.5), (0.003, 0.02, 0.6)]
)
def test_three_per_cent_are_found_with_three_runs(spread: float, noise: float, rho: float) -> None:
    generator = random.Random(3)
    found = 0
    for pair in range(PAIRS):
        change = 0.03 if pair % 2 else -0.03
        before = side(generator, 3, spread=spread, noise=noise, autocorrelation=rho)
        after = side(generator, 3, shift=math.log1p(change), spread=spread, noise=noise, autocorrelation=rho)
        found += called_different(before, after) and (effect(before, after, OPTIONS).change > 0) == (
            change > 0
        )
    assert found / PAIRS >= 0.95


def test_interval_over_runs_holds_the_truth_as_often_as_it_says() -> None:
    generator = random.Random(8)
    held = 0
    for _ in range(PAIRS // 2):
        before = side(generator, 3, spread=0.02, noise=0.01, autocorrelation=0.3)
        after = side(generator, 3, shift=math.log(1.1), spread=0.02, noise=0.01, autocorrelation=0.3)
        change = effect(before, after, OPTIONS)
        assert change.low is not None
        assert change.high is not None
        held += change.low < 0.1 < change.high
    assert held / (PAIRS // 2) == pytest.approx(0.95, abs=0.025)


def test_a_bootstrap_over_three_runs_would_call_too_many() -> None:
    """Why the runs are not resampled: the percentiles of three values are far too narrow."""
    generator = random.Random(4)
    false = 0
    for _ in range(PAIRS // 2):
        groups = [[generator.gauss(0, 0.02) for _ in range(3)] for _ in range(2)]
        draws = sorted(
            sum(generator.choices(groups[1], k=3)) / 3 - sum(generator.choices(groups[0], k=3)) / 3
            for _ in range(200)
        )
        false += draws[5] > 0 or draws[194] < 0
    assert false / (PAIRS // 2) > 0.1


def test_copies_of_one_run_are_no_evidence() -> None:
    error = CentreError(standard_error=0.01, df=9, block_length=5, autocorrelation=0.5)
    copies = [RunValue(log_value=0.0, error=error)] * 3
    change = effect(copies, [RunValue(log_value=0.01, error=error)] * 3, OPTIONS)
    assert not change.excludes_zero


def test_one_against_three_runs_takes_the_spread_of_the_three() -> None:
    before = [RunValue(log_value=value) for value in (-0.01, 0.0, 0.01)]
    change = effect(before, [RunValue(log_value=0.03)], OPTIONS)
    assert change.basis == "runs"
    assert change.df == 2
    half = 4.302653 * 0.01 * math.sqrt(1 / 3 + 1)
    assert change.low == pytest.approx(math.expm1(0.03 - half), rel=1e-5)
    assert change.high == pytest.approx(math.expm1(0.03 + half), rel=1e-5)


def test_one_run_a_side_is_judged_within_these_runs_and_with_the_assumed_spread() -> None:
    generator = random.Random(6)
    sides = make_sides(
        [
            [run_data("r1", step_times(generator, noise=0.002))],
            [run_data("r2", step_times(generator, noise=0.002, offset=math.log(1.02)))],
        ]
    )
    pair = compare(sides).pairs[0]
    row = pair.row("step_time_s")
    assert row is not None
    assert row.effect is not None
    assert row.effect.within_low is not None
    assert row.effect.within_low > 0.015
    assert (row.word, row.reason) == ("no difference", "the interval holds 0")
    sure = compare(sides, CompareOptions(run_spread=0.0)).pairs[0].row("step_time_s")
    assert sure is not None
    assert (sure.word, sure.reason) == ("slower", "within these runs")
    note = next(note for note in pair.notes if note.startswith("one run a side"))
    assert note.startswith(
        "one run a side: the run-to-run spread is unknown, and the intervals assume 1 % of it (--run-spread); "
        "within these runs alone B is at +"
    )


def test_a_tenth_slower_is_slower_and_its_throughput_too() -> None:
    times = step_times(random.Random(9))
    sides = make_sides([[run_data("r1", times)], [run_data("r2", [1.1 * value for value in times])]])
    rows = {row.metric.name: row for row in compare(sides).pairs[0].rows}
    assert rows["step_time_s"].word == "slower"
    assert rows["step_time_s"].effect is not None
    assert rows["step_time_s"].effect.change == pytest.approx(0.1)
    assert rows["tokens_per_s_per_gpu"].word == "slower"
    assert rows["tokens_per_s_per_gpu"].effect is not None
    assert rows["tokens_per_s_per_gpu"].effect.change == pytest.approx(1 / 1.1 - 1)
    assert rows["mfu"].word == "lower"


def test_a_small_sure_change_is_no_difference() -> None:
    generator = random.Random(10)
    before = [run_data(f"a{n}", step_times(generator, noise=0.0005)) for n in range(3)]
    after = [run_data(f"b{n}", step_times(generator, noise=0.0005, offset=0.005)) for n in range(3)]
    row = compare(make_sides([before, after])).pairs[0].row("step_time_s")
    assert row is not None
    assert (row.word, row.reason) == ("no difference", "within ±1 %")
    strict = (
        compare(make_sides([before, after]), CompareOptions(min_effect=0.001)).pairs[0].row("step_time_s")
    )
    assert strict is not None
    assert strict.word == "slower"


def test_fewer_than_five_steps_are_not_tested() -> None:
    sides = make_sides([[run_data("r1", [1.0, 1.1, 1.0])], [run_data("r2", [2.0, 2.1, 2.0])]])
    row = compare(sides).pairs[0].row("step_time_s")
    assert row is not None
    assert (row.word, row.reason) == ("not tested", "fewer than 5 steps")
    assert row.effect is not None
    assert row.effect.change == pytest.approx(1.0)


def test_an_invalid_run_is_not_tested() -> None:
    times = step_times(random.Random(12))
    bad = run_data("r2", times, status="invalid", reasons=("the loss is NaN from step 3 on",))
    pair = compare(make_sides([[run_data("r1", times)], [bad]])).pairs[0]
    assert {row.word for row in pair.rows} == {"not tested"}
    assert {row.reason for row in pair.rows} == {"B is invalid"}
    assert "B: r2 is invalid: the loss is NaN from step 3 on" in pair.notes


def test_single_values_are_tested_over_runs_only() -> None:
    times = step_times(random.Random(13))
    losses = [2.0, 2.01, 1.99], [1.5, 1.51, 1.49]
    one = [[run_data("r", times, extra={"loss": group[0]})] for group in losses]
    row = compare(make_sides(one)).pairs[0].row("loss")
    assert row is not None
    assert (row.word, row.reason) == ("not tested", "one value a side")
    three = [[run_data("r", times, extra={"loss": loss}) for loss in group] for group in losses]
    row = compare(make_sides(three)).pairs[0].row("loss")
    assert row is not None
    assert row.word == "lower"


def test_three_sides_are_each_held_against_the_first() -> None:
    generator = random.Random(14)
    sides = make_sides(
        [
            [run_data(name, step_times(generator, offset=offset))]
            for name, offset in (("x", 0), ("y", 0.1), ("z", -0.1))
        ]
    )
    comparison = compare(sides)
    assert [(pair.before.name, pair.after.name) for pair in comparison.pairs] == [("A", "B"), ("A", "C")]
    words = [row.word for pair in comparison.pairs if (row := pair.row("step_time_s"))]
    assert words == ["slower", "faster"]
