"""Gates: their syntax, what they look at, and who may not take part."""

from __future__ import annotations

import dataclasses
import random

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare import compare
from cloudai_run.metrics.compare_results import compare_all
from cloudai_run.metrics.gates import Gate, evaluate_gates, holds, parse_gate
from cloudai_run.metrics.run_data import RunData, Side, make_sides
from tests.metrics_compare.runs import SHAPE, run_data, step_times

TIMES = step_times(random.Random(1), noise=0.002)


def sides(*factors: float) -> tuple[Side, ...]:
    return make_sides(
        [[run_data(f"r{index}", [factor * value for value in TIMES])] for index, factor in enumerate(factors)]
    )


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("step_time_s>+3%", ("step_time_s", ">", 0.03, True)),
        (" step_time_s >= +3 % ", ("step_time_s", ">=", 0.03, True)),
        ("tokens_per_s_per_gpu<-3.5%", ("tokens_per_s_per_gpu", "<", -0.035, True)),
        ("step_time_s>2.5", ("step_time_s", ">", 2.5, False)),
        ("step_time_s>.5", ("step_time_s", ">", 0.5, False)),
        ("tokens_per_s<=1e6", ("tokens_per_s", "<=", 1e6, False)),
        ("mfu<0.4", ("mfu", "<", 0.4, False)),
        ("mfu<40%", ("mfu", "<", 0.4, False)),
        ("mfu<-2%", ("mfu", "<", -0.02, True)),
    ],
)
def test_syntax(text: str, gate: tuple[str, str, float, bool]) -> None:
    found = parse_gate(text)
    assert (found.metric, found.operator, found.relative) == (gate[0], gate[1], gate[3])
    assert found.limit == pytest.approx(gate[2])
    assert found.text == text.strip()


EXAMPLES = "\n  write 'step_time_s>+3%' (a change) or 'step_time_s>2.5' (a value)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--fail-if '' is no condition" + EXAMPLES),
        ("step_time_s", "--fail-if 'step_time_s' is no condition" + EXAMPLES),
        ("step_time_s=3", "--fail-if 'step_time_s=3' is no condition" + EXAMPLES),
        ("step_time_s>", "--fail-if 'step_time_s>' is no condition" + EXAMPLES),
        ("step_time_s>2.5s", "--fail-if 'step_time_s>2.5s' is no condition" + EXAMPLES),
        ("step_time_s>nan", "--fail-if 'step_time_s>nan' is no condition" + EXAMPLES),
        ("step_time_s>+3", "--fail-if 'step_time_s>+3': a change is given in per cent" + EXAMPLES),
        ("step_time_s>3%", "--fail-if 'step_time_s>3%': a change needs its sign, + or -" + EXAMPLES),
        (
            "step_time>+3%",
            "--fail-if 'step_time>+3%': there is no metric 'step_time'\n  did you mean step_time_s?",
        ),
    ],
)
def test_bad_conditions(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_gate(text)
    assert str(caught.value) == message


def test_an_unlike_name_lists_the_metrics() -> None:
    with pytest.raises(UserError) as caught:
        parse_gate("qqqqq>1")
    assert str(caught.value).splitlines()[1].startswith("  known: step_time_s, tokens_per_s_per_gpu, ")


def test_operators() -> None:
    assert holds(1, "<", 2)
    assert not holds(2, "<", 2)
    assert holds(2, "<=", 2)
    assert holds(3, ">", 2)
    assert not holds(2, ">", 2)
    assert holds(2, ">=", 2)


def judge(text: str, *factors: float) -> list[tuple[str, bool, str]]:
    results = evaluate_gates([parse_gate(text)], compare(sides(*factors)))
    return [(result.side, result.failed, result.message) for result in results]


def test_a_tenth_slower_fails() -> None:
    ((side, failed, message),) = judge("step_time_s>+3%", 1.0, 1.1)
    assert (side, failed) == ("B", True)
    assert message.startswith("+10.0% [+")
    assert message.endswith("] against A (slower)")


def test_a_tenth_slower_fails_by_its_throughput() -> None:
    assert [failed for _, failed, _ in judge("tokens_per_s_per_gpu<-3%", 1.0, 1.1)] == [True]


def test_the_same_run_passes() -> None:
    ((_, failed, message),) = judge("step_time_s>+3%", 1.0, 1.0)
    assert not failed
    assert message.endswith("against A (no difference)")


def test_every_side_after_the_first_is_judged() -> None:
    assert [(side, failed) for side, failed, _ in judge("step_time_s>+3%", 1.0, 1.01, 1.2)] == [
        ("B", False),
        ("C", True),
    ]


def test_a_value_is_judged_on_the_sides_after_the_first_or_on_the_one_there_is() -> None:
    assert [(side, failed) for side, failed, _ in judge("step_time_s>10.5", 1.2, 1.0)] == [("B", False)]
    ((side, failed, message),) = judge("step_time_s>10.5", 1.2)
    assert (side, failed) == ("A", True)
    assert message.endswith(" s")


def refusal(groups: tuple[Side, ...], text: str) -> str:
    with pytest.raises(UserError) as caught:
        evaluate_gates([parse_gate(text)], compare(groups))
    return str(caught.value)


def test_a_change_needs_something_to_be_a_change_of() -> None:
    assert refusal(sides(1.0), "step_time_s>+3%") == (
        "--fail-if step_time_s>+3%: a change needs a second run to compare with\n"
        "  give two runs, or --against published, or a value: 'step_time_s>2.5'"
    )


def test_a_metric_without_value_is_a_mistake_and_says_why() -> None:
    shape = dataclasses.replace(SHAPE, gpu_model="Tesla T4")
    groups = make_sides([[run_data("r1", TIMES)], [run_data("r2", TIMES, shape=shape)]])
    message = refusal(groups, "mfu<-2%")
    assert message.startswith(
        "--fail-if mfu<-2%: mfu has no value in B\n  r2: no sourced peak for the GPU 'Tesla T4'"
    )


@pytest.mark.parametrize("smoke_side", [0, 1])
def test_smoke_runs_are_refused(smoke_side: int) -> None:
    runs = [run_data(f"r{index}", TIMES, smoke=index == smoke_side) for index in range(2)]
    assert refusal(make_sides([[run] for run in runs]), "step_time_s>+3%") == (
        f"r{smoke_side} is a CPU smoke run: not a benchmark, so it takes no part in a gate\n"
        "  compare it without, or launch a full run"
    )


def test_smoke_runs_without_a_gate_are_compared() -> None:
    groups = make_sides([[run_data("r1", TIMES, smoke=True)], [run_data("r2", TIMES, smoke=True)]])
    results = compare_all(groups)
    assert not results.failed
    assert results.comparison.pairs[0].row("mfu") is None


def invalid(label: str) -> RunData:
    return run_data(label, TIMES, status="invalid", reasons=("rank 3 failed",))


@pytest.mark.parametrize("text", ["step_time_s>+3%", "step_time_s>99"])
def test_an_invalid_run_fails_every_gate(text: str) -> None:
    groups = make_sides([[run_data("r1", TIMES)], [invalid("r2")]])
    (result,) = evaluate_gates([parse_gate(text)], compare(groups))
    assert (result.failed, result.message) == (True, "r2 is invalid: rank 3 failed")


def test_an_invalid_baseline_is_a_mistake() -> None:
    groups = make_sides([[invalid("r1")], [run_data("r2", TIMES)]])
    assert refusal(groups, "step_time_s>+3%") == "--fail-if step_time_s>+3%: A is invalid: rank 3 failed"


def test_no_gate_no_result() -> None:
    assert evaluate_gates([], compare(sides(1.0, 2.0))) == []


def published_results(gate: Gate, factor: float = 1.0) -> list[tuple[bool, str]]:
    # 14451 tokens/s/GPU, as Megatron-Bridge 25.11 has it for this shape.
    seconds = factor * 128 * 8192 / 8 / 14451
    groups = make_sides([[run_data("r1", [seconds] * 10)]])
    results = compare_all(groups, gates=[gate], against_published=True)
    return [(result.failed, result.message) for result in results.gates]


def test_a_change_on_one_side_is_judged_against_its_published_rows() -> None:
    found = published_results(parse_gate("tokens_per_s_per_gpu<-5%"))
    assert len(found) == 4
    assert (False, "14451, +0.0% of 14451 (megatron-bridge-25.11)") in found
    assert not any(failed for failed, _ in found)
    slow = published_results(parse_gate("tokens_per_s_per_gpu<-5%"), factor=1.1)
    assert (True, "13137.3, -9.1% of 14451 (megatron-bridge-25.11)") in slow
    assert (False, "13137.3, +7.0% of 12273 (nemo-24.07)") in slow


def test_no_published_row_is_a_mistake_for_a_gate() -> None:
    shape = dataclasses.replace(SHAPE, num_gpus=24)
    groups = make_sides([[run_data("r1", TIMES, shape=shape)]])
    with pytest.raises(UserError) as caught:
        compare_all(groups, gates=[parse_gate("step_time_s>+3%")], against_published=True)
    assert str(caught.value) == "no published row can be compared with r1, so no gate can be decided"


def test_a_published_row_without_the_metric_is_a_mistake() -> None:
    groups = make_sides([[run_data("r1", TIMES)]])
    with pytest.raises(UserError) as caught:
        compare_all(groups, gates=[parse_gate("mfu<-3%")], against_published=True)
    assert str(caught.value).startswith("--fail-if mfu<-3%: mfu is not in both the run and the row of ")
