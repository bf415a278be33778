"""The steady window: each format's rule, what is left out and why, the override."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.samples import FormatName, ParsedLog, Step, Window
from cloudai_run.metrics.window import parse_window, steady_window, warm_up_steps


def log(count: int, format: FormatName = "nemo2", first: int = 0, **other: object) -> ParsedLog:
    steps = tuple(Step(first + k, step_time_s=1.0 + k / 1000) for k in range(count))
    return replace(ParsedLog(format, None, ("a.log",), steps), **other)


def inside(window: Window) -> list[int]:
    return [step.step for step in window.steps]


def reasons(window: Window) -> dict[int, str]:
    return {excluded.step: excluded.reason for excluded in window.excluded}


@pytest.mark.parametrize(
    ("format", "counts"),
    [
        # number of timed steps -> warm-up steps
        ("nemo2", {0: 0, 1: 1, 2: 1, 5: 1, 10: 2, 20: 4, 50: 10, 100: 10, 1000: 10}),
        ("nemo2_dllogger", {1: 1, 5: 2, 10: 5, 50: 10}),
        ("nemo1", {5: 2, 10: 5, 50: 10}),
        ("megatron_lm", {5: 1, 10: 2, 50: 10}),
        ("megatron_bridge", {5: 2, 8: 4, 10: 4, 50: 10}),
        ("paxml", {5: 1, 8: 1, 12: 2, 20: 4}),
        ("maxtext", {5: 2, 12: 3, 20: 4, 50: 10}),
    ],
)
def test_warm_up_of_each_format(format: FormatName, counts: dict[int, int]) -> None:
    assert {count: warm_up_steps(format, count) for count in counts} == counts


def test_five_steps_give_four_samples_and_say_that_they_are_few() -> None:
    window = steady_window(log(5))
    assert inside(window) == [1, 2, 3, 4]
    assert (window.first_step, window.last_step) == (1, 4)
    assert reasons(window) == {0: "warm-up"}
    assert window.rule == "first 1 of 5 timed steps left out as warm-up (compilation and first allocations)"
    assert window.note == "only 4 steps in the window: take the numbers as rough"


def test_paxml_rule_names_its_limit() -> None:
    assert steady_window(log(20, "paxml")).rule == (
        "first 4 of 20 timed steps left out as warm-up "
        "(compilation, then dispatch without waiting; PAXML times its first 20 steps only)"
    )


def test_one_step_leaves_nothing_and_says_so() -> None:
    window = steady_window(log(1))
    assert (window.steps, window.first_step) == ((), None)
    assert window.note == "no step is left of 1: the run was too short, or name the steps with --window"
    assert steady_window(log(0)).note == "the log holds no step"


def test_steps_without_a_time_are_no_samples() -> None:
    steps = (Step(0, loss=1.0), *(Step(k, step_time_s=1.0) for k in range(1, 21)), Step(21, loss=2.0))
    window = steady_window(log(0, steps=steps))
    assert inside(window) == list(range(5, 21))
    assert reasons(window) == {
        0: "no step time",
        **dict.fromkeys(range(1, 5), "warm-up"),
        21: "no step time",
    }
    lossy = steady_window(log(0, steps=(Step(0, loss=1.0), Step(1, loss=1.0))))
    assert lossy.note == "none of the 2 steps has a step time"


def test_steps_after_checkpoints_and_validations_are_left_out() -> None:
    window = steady_window(
        log(50, checkpoint_steps=frozenset({29, 49}), validation_steps=frozenset({20, 29}))
    )
    assert {step: reason for step, reason in reasons(window).items() if reason != "warm-up"} == {
        21: "after a validation",
        30: "after a checkpoint",
    }
    assert window.rule.endswith("; 2 steps after checkpoints and validations left out")


def test_a_checkpoint_after_every_step_leaves_them_in_and_says_so() -> None:
    window = steady_window(log(50, checkpoint_steps=frozenset(range(50))))
    assert inside(window) == list(range(10, 50))
    assert window.note == "a checkpoint or validation before 40 of 40 steps: these are kept"


def test_an_interval_that_holds_the_checkpointed_step_is_left_out() -> None:
    steps = tuple(Step(k, step_time_s=1.0, covers_steps=10) for k in range(10, 310, 10))
    window = steady_window(log(0, "megatron_lm", steps=steps, checkpoint_steps=frozenset({205})))
    assert reasons(window)[210] == "after a checkpoint"
    assert 200 in inside(window)


@pytest.mark.parametrize(("format", "after"), [("nemo2", 1), ("nemo2_dllogger", 5)])
def test_profiled_steps_are_left_out(format: FormatName, after: int) -> None:
    window = steady_window(log(50, format), profiled=(30, 32))
    assert [step for step, reason in reasons(window).items() if reason == "profiled"] == [
        *range(30, 33 + after)
    ]
    assert window.rule.endswith(f"; profiled steps 30 to 32 and {after} more left out")
    from_log = steady_window(log(50, format, profiled_steps=(30, 32)))
    assert from_log.excluded == window.excluded


def test_the_first_step_after_a_restart_is_left_out() -> None:
    steps = tuple(Step(k, step_time_s=1.0, attempt=int(k >= 30)) for k in range(50))
    window = steady_window(log(0, steps=steps))
    assert reasons(window)[30] == "first after a restart"


def test_override() -> None:
    window = steady_window(log(50, checkpoint_steps=frozenset({20})), override="10:15")
    assert inside(window) == [10, 11, 12, 13, 14]
    assert window.rule == "--window 10:15"
    assert reasons(window)[9] == reasons(window)[15] == "outside 10:15"
    assert inside(steady_window(log(50), override="47:")) == [47, 48, 49]
    assert inside(steady_window(log(50), override=":2")) == [0, 1]
    assert steady_window(log(50), override="60:").note == (
        "no step is left of 50: the run was too short, or name the steps with --window"
    )


@pytest.mark.parametrize(
    ("text", "expected"), [("10:50", (10, 50)), ("10:", (10, None)), (":50", (None, 50)), (":", (None, None))]
)
def test_parse_window(text: str, expected: tuple[int | None, int | None]) -> None:
    assert parse_window(text) == expected


@pytest.mark.parametrize(
    "text", ["", "10", "a:b", "10-50", "-5:", "1:2:3", "10:50x", "1.5:3", "\u0661:\u0662"]
)
def test_a_window_of_another_form(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_window(text)
    assert str(caught.value) == (
        f"--window {text}: not understood\n  write FIRST:LAST, for instance 10:50 for steps 10 to 49"
    )


def test_an_empty_window() -> None:
    with pytest.raises(UserError, match=r"--window 50:10: no step is at least 50 and below 10"):
        parse_window("50:10")


def test_several_ranks_give_the_median_of_each_step() -> None:
    steps = tuple(
        Step(k, step_time_s=seconds, rank=rank)
        for rank, seconds in enumerate((1.0, 1.1, 5.0))
        for k in range(5)
    )
    window = steady_window(log(0, steps=steps))
    assert [(step.step, step.step_time_s) for step in window.steps] == [(k, 1.1) for k in range(1, 5)]
