"""Ranks: slowest, spread, stragglers by name. Validity: what makes a run valid, incomplete or invalid."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cloudai_run.metrics.ranks import rank_spread
from cloudai_run.metrics.samples import Failure, FormatName, ParsedLog, RankLog, RankSpread, Step, Validity
from cloudai_run.metrics.validity import judge
from cloudai_run.metrics.window import steady_window


def log(steps: tuple[Step, ...], format: FormatName = "nemo2", **other: object) -> ParsedLog:
    return replace(ParsedLog(format, None, ("a.log",), steps, ended=True), **other)


def ranked(times: dict[int, float], node_size: int = 0) -> tuple[Step, ...]:
    return tuple(
        Step(k, step_time_s=seconds + k / 1e4, rank=rank, node=f"n{rank // node_size}" if node_size else None)
        for rank, seconds in times.items()
        for k in range(10)
    )


def spread_of(steps: tuple[Step, ...]) -> RankSpread | None:
    return rank_spread(log(steps), steady_window(log(steps)))


def test_even_ranks_have_no_stragglers() -> None:
    found = spread_of(ranked({rank: 1 + rank / 1000 for rank in range(8)}))
    assert found is not None
    assert (found.slowest_rank, found.stragglers, found.nodes) == (7, (), {})
    assert found.spread == pytest.approx(0.007, rel=0.01)
    assert [summary.rank for summary in found.ranks] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert found.ranks[0].count == 8


def test_stragglers_are_named_with_their_node() -> None:
    times = {rank: 1 + rank / 1000 for rank in range(16)}
    times[13] = 1.2
    found = spread_of(ranked(times, node_size=8))
    assert found is not None
    assert [(summary.rank, summary.node) for summary in found.stragglers] == [(13, "n1")]
    assert (found.slowest_rank, found.slowest_node) == (13, "n1")
    assert found.stragglers[0].relative == pytest.approx(1.19, abs=0.01)
    assert list(found.nodes) == ["n1", "n0"]


def test_uneven_ranks_are_not_all_stragglers() -> None:
    found = spread_of(ranked({rank: 1 + rank / 10 for rank in range(8)}))
    assert found is not None
    assert found.stragglers == ()


def test_two_ranks_that_differ() -> None:
    found = spread_of(ranked({0: 1.0, 1: 1.2}))
    assert found is not None
    assert [summary.rank for summary in found.stragglers] == [1]


def test_one_rank_has_no_spread() -> None:
    assert spread_of(ranked({0: 1.0})) is None


def steps_with(count: int = 20) -> tuple[Step, ...]:
    return tuple(Step(k, step_time_s=1.0, loss=6 - k / 100) for k in range(count))


def verdict(
    found: ParsedLog,
    max_steps: int | None = None,
    exit_code: int | None = None,
    expect_falling_loss: bool | None = None,
) -> Validity:
    return judge(
        found,
        steady_window(found),
        max_steps=max_steps,
        exit_code=exit_code,
        expect_falling_loss=expect_falling_loss,
    )


def failure(kind: str, fatal: bool = True) -> Failure:
    return Failure(kind, "the log's own words", "advice", "a.log", 7, 3, fatal)


def test_valid() -> None:
    assert verdict(log(steps_with()), max_steps=20, exit_code=0) == Validity("valid", ())


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("field", "name"), [("loss", "loss"), ("grad_norm", "gradient norm")])
def test_not_a_number_is_invalid(value: float, field: str, name: str) -> None:
    steps = (*steps_with(5), replace(Step(5, step_time_s=1.0), **{field: value}))
    assert verdict(log(steps)) == Validity("invalid", (f"{name} is {value} from step 5 (1 steps)",))


def test_nan_iterations_are_invalid() -> None:
    steps = (*steps_with(5), Step(5, step_time_s=1.0, nan_iterations=2))
    assert verdict(log(steps)) == Validity("invalid", ("2 NaN iterations, first by step 5",))


def test_a_failed_rank_is_invalid() -> None:
    found = log(steps_with(5), failures=(failure("rank_failed"),), ended=False)
    assert verdict(found, max_steps=20) == Validity(
        "invalid",
        (
            "rank 3: rank_failed (a.log:7): the log's own words",
            "no end marker, and the last step is 4 of 20",
        ),
    )


def test_the_time_limit_makes_it_incomplete() -> None:
    found = log(steps_with(5), failures=(failure("time_limit"),), ended=False)
    assert verdict(found, max_steps=20).status == "incomplete"


def test_a_failure_after_the_last_step_is_flagged_and_the_numbers_stand() -> None:
    found = log(steps_with(), failures=(failure("time_limit"),))
    assert verdict(found) == Validity(
        "incomplete", ("after the last step, rank 3: time_limit (a.log:7): the log's own words",)
    )
    assert verdict(log(steps_with()), exit_code=1) == Validity(
        "incomplete", ("the stage ended with exit code 1, after its last step",)
    )


def test_hung_at_the_end() -> None:
    assert verdict(log(steps_with(), ended=False), max_steps=20) == Validity(
        "incomplete", ("all 20 steps are there, but no end marker: it may have hung at the end",)
    )


def test_an_exit_code_without_an_end_is_invalid() -> None:
    assert verdict(log(steps_with(5), ended=False), max_steps=20, exit_code=9) == Validity(
        "invalid",
        (
            "the stage ended with exit code 9 before its last step",
            "no end marker, and the last step is 4 of 20",
        ),
    )


def test_an_error_that_is_not_fatal_does_not_count() -> None:
    assert verdict(log(steps_with(), failures=(failure("exception", fatal=False),))).status == "valid"


def test_a_format_without_an_end_marker_is_judged_by_its_steps() -> None:
    found = log(steps_with(), "maxtext", ended=None)
    assert verdict(found) == Validity("valid", ())
    assert verdict(found, max_steps=20) == Validity("valid", ())
    assert verdict(found, max_steps=50) == Validity(
        "incomplete", ("no end marker, and the last step is 19 of 50",)
    )


def test_ranks_without_an_end_marker_are_named() -> None:
    ranks = tuple(RankLog(rank, None, 20, rank % 2 == 0, ("a.log",)) for rank in range(4))
    found = log(steps_with(), "paxml", ended=False, ranks=ranks)
    assert verdict(found) == Validity("incomplete", ("no end marker from rank 1, 3 (2 of 4 ranks)",))


def test_no_step_is_invalid() -> None:
    assert verdict(log(())) == Validity("invalid", ("the log holds no step",))


def test_loss() -> None:
    rising = tuple(Step(k, step_time_s=1.0, loss=2 + k / 10) for k in range(30))
    flat = tuple(Step(k, step_time_s=1.0, loss=2.0) for k in range(30))
    assert verdict(log(flat)).status == "valid"
    assert verdict(log(flat), expect_falling_loss=True) == Validity(
        "invalid", ("the loss does not fall: 2 at first, 2 at last",)
    )
    assert verdict(log(rising)) == Validity("invalid", ("the loss grows from 2.25 to 4.65",))
    assert verdict(log(rising), expect_falling_loss=False).status == "valid"
    assert verdict(log(rising[:10])).status == "valid"
    assert verdict(log(steps_with(5)), expect_falling_loss=True).status == "valid"
