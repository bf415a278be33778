"""Logs of real runs (trimmed): small NeMo, PAXML and MaxText trainings on a CPU, and runs that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run.metrics.parse import parse_files
from cloudai_run.metrics.ranks import rank_spread
from cloudai_run.metrics.samples import ParsedLog
from cloudai_run.metrics.validity import judge
from cloudai_run.metrics.window import steady_window

DATA = Path(__file__).parent / "data"


def read(*names: str) -> ParsedLog:
    return parse_files([DATA / name for name in names])


def times(log: ParsedLog) -> list[float | None]:
    return [step.step_time_s for step in log.steps]


def test_nemo_bf16() -> None:
    log = read("nemo_tiny25_bf16.log")
    assert log.format == "nemo2"
    assert [step.step for step in log.steps] == [0, 1, 2]
    assert times(log) == [6.183, 0.05609, 0.03663]
    assert [step.loss for step in log.steps] == [5.954, 5.955, 5.961]
    assert [step.learning_rate for step in log.steps] == [1.499e-07, 2.999e-07, 4.498e-07]
    assert [step.consumed_samples for step in log.steps] == [None, 4, 6]
    assert {step.global_batch_size for step in log.steps} == {2}
    assert (log.ended, log.max_steps, log.problems, log.failures) == (True, 3, (), ())
    assert judge(log, steady_window(log)).status == "valid"


def test_nemo_resumed_with_checkpoint_and_validation() -> None:
    log = read("nemo_tiny25_ck2.log")
    assert [step.step for step in log.steps] == [3, 4, 5]
    assert times(log) == [3.953, 0.02743, 0.02661]
    assert [step.consumed_samples for step in log.steps] == [8, 10, 12]
    assert log.checkpoint_steps == {5}
    assert log.validation_steps == {5}
    assert (log.ended, log.max_steps, log.restarts) == (True, 6, 0)
    assert [step.step for step in steady_window(log).steps] == [4, 5]


def test_nemo_data_parallel_with_the_other_rank_talking_in_between() -> None:
    log = read("nemo_tiny25_dp2.log")
    assert times(log) == [3.923, 0.04093, 0.03011]
    assert (log.ended, log.max_steps, log.problems) == (True, 3, ())


def test_nemo_60_steps() -> None:
    log = read("nemo_tiny25_long.log")
    assert [step.step for step in log.steps] == list(range(60))
    assert times(log)[:3] == [2.826, 0.03124, 0.0308]
    assert times(log)[-1] == 0.03222
    assert log.steps[16].step_time_s == 0.04987
    assert log.steps[59].loss == 5.628
    window = steady_window(log)
    assert (window.first_step, window.last_step, len(window.steps), window.note) == (10, 59, 50, None)
    assert judge(log, window, expect_falling_loss=True).status == "valid"


def test_maxtext() -> None:
    log = read("maxtext_tiny_cpu.err")
    assert log.format == "maxtext"
    assert times(log) == [0.176, 0.559, 0.017, 0.011, 0.007, 0.005, 0.008, 0.005, 0.014, 0.009, 0.005, 0.011]
    assert [step.framework_tflops_per_gpu for step in log.steps[:3]] == [None, None, 0.003]
    assert log.steps[5].tokens_per_s_per_gpu == 13891.904
    assert [step.loss for step in log.steps[-2:]] == [7.043, 7.043]
    assert log.ended is None
    window = steady_window(log)
    assert window.first_step == 3
    assert judge(log, window).status == "valid"


@pytest.mark.parametrize(
    ("name", "first", "second", "last"),
    [
        ("pax_grok_proxy_cpu.err", 4.199081, 0.011166, 0.011791),
        ("pax_grok_two_stage_profile.err", 4.139553, 0.012043, 0.012263),
        ("pax_grok_two_stage_perf.err", 5.439223, 0.01478, 0.012607),
    ],
)
def test_paxml_grok(name: str, first: float, second: float, last: float) -> None:
    log = read(name)
    assert log.format == "paxml"
    assert [step.step for step in log.steps] == list(range(20))
    assert (times(log)[0], times(log)[1], times(log)[-1]) == (first, second, last)
    assert (log.ended, log.max_steps) == (True, 20)
    window = steady_window(log)
    assert (window.first_step, len(window.steps)) == (4, 16)
    assert judge(log, window).status == "valid"


def test_paxml_prints_20_of_40_steps() -> None:
    log = read("pax_max_steps_40.err")
    assert len(log.steps) == 20
    assert log.steps[0].step_time_s == 17.304854
    assert log.max_steps == 40
    assert "PAXML prints the times of the first 20 steps of a process only: 20 of 40 have none" in log.notes
    assert judge(log, steady_window(log)).status == "valid"


def test_paxml_two_ranks() -> None:
    log = read("pax_two_ranks_rank0.err", "pax_two_ranks_rank1.err")
    assert [(rank.rank, rank.steps, rank.ended) for rank in log.ranks] == [(0, 12, True), (1, 12, True)]
    assert (log.steps[0].step_time_s, log.steps[12].step_time_s) == (18.212619, 20.152769)
    assert log.restarts == 0
    window = steady_window(log)
    assert [step.step for step in window.steps] == list(range(2, 12))
    assert window.all_steps[1].step_time_s == pytest.approx((0.128826 + 0.12868) / 2)
    spread = rank_spread(log, window)
    assert spread is not None
    assert (spread.slowest_rank, spread.stragglers) == (0, ())
    assert judge(log, window).status == "valid"


def test_paxml_rank_that_never_ended_is_named(tmp_path: Path) -> None:
    text = (DATA / "pax_two_ranks_rank1.err").read_text()
    (tmp_path / "rank1.err").write_text(text[: text.index("E2E time: Elapsed")])
    log = parse_files([DATA / "pax_two_ranks_rank0.err", tmp_path / "rank1.err"])
    assert log.ended is False
    verdict = judge(log, steady_window(log))
    assert verdict.status == "incomplete"
    assert verdict.reasons == ("no end marker from rank 1 (1 of 2 ranks)",)


def test_unknown_xla_flag_is_explained() -> None:
    log = read("pax_unknown_xla_flag.err")
    assert (log.format, log.steps) == ("paxml", ())
    assert [failure.kind for failure in log.failures] == ["xla_unknown_flag", "crash"]
    first = log.failures[0]
    assert "--xla_gpu_no_such_flag=true" in first.message
    assert "jaxlib" in first.advice
    verdict = judge(log, steady_window(log))
    assert verdict.status == "invalid"
    assert verdict.reasons[0].startswith("xla_unknown_flag (")
    assert verdict.reasons[-1] == "the log holds no step"


def test_a_knob_without_its_quotes_is_explained() -> None:
    log = read("pax_unquoted_string_knob.err")
    failures = {failure.kind: failure for failure in log.failures}
    assert "need quotes of their own" in failures["literal_value"].advice
    assert judge(log, steady_window(log)).status == "invalid"


def test_all_logs_together_are_several_runs() -> None:
    from cloudai_run.errors import UserError

    with pytest.raises(UserError, match="these logs are of several formats: give those of one run"):
        read("nemo_tiny25_bf16.log", "maxtext_tiny_cpu.err")
