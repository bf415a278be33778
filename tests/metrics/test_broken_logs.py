"""Logs as they really come: cut, glued, torn, mixed, repeated. Nothing is invented, and losses are counted."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.parse import parse_files, parse_stream
from cloudai_run.metrics.samples import ParsedLog


def parse(text: str, name: str = "<stdin>") -> ParsedLog:
    return parse_stream(io.BytesIO(text.encode()), name)


def nemo(step: int, seconds: float, prefix: str = "", loss: float = 5.5) -> str:
    tail = "" if step == 0 else f" | consumed_samples: {8 * (step + 1)}"
    return (
        f"{prefix}Training epoch 0, iteration {step}/99 | lr: 0.0001 | global_batch_size: 8 | "
        f"global_step: {step} | reduced_train_loss: {loss:.4g} | train_step_timing in s: {seconds:.4g}{tail}\n"
    )


def found(log: ParsedLog) -> list[tuple[int, float | None]]:
    return [(step.step, step.step_time_s) for step in log.steps]


LOG = "".join(nemo(step, 1.25 + step / 100) for step in range(6))
STEPS = [(step, 1.25 + step / 100) for step in range(6)]


def test_the_whole_log() -> None:
    assert found(parse(LOG)) == STEPS


def test_a_last_line_without_its_end_is_not_trusted_to_its_last_digit() -> None:
    cut = LOG[: LOG.index(" | consumed_samples: 48") - 1]
    log = parse(cut)
    assert found(log) == [*STEPS[:5], (5, None)]
    assert str(log.problems[0]) == "1 step lines without a usable step time, first at <stdin>:6"


def test_a_first_line_that_ends_with_the_time_is_whole() -> None:
    assert found(parse(nemo(0, 4.49))) == [(0, 4.49)]
    assert found(parse(nemo(0, 4.49).rstrip())) == [(0, None)]


@pytest.mark.parametrize(
    "inside", ["\n", "\r", "\r\n", "\x00", "\x1b[", " ", "|", " | ", ",", "\xff", "é", "_", "|:"]
)
def test_a_number_torn_in_two_is_no_number(inside: str) -> None:
    whole = "train_step_timing in s: 1.27"
    torn = LOG.replace(whole, f"train_step_timing in s: 1.2{inside}7")
    log = parse(torn)
    expected = [step if step[0] != 2 else (2, None) for step in STEPS]
    assert found(log) == expected
    assert sum(problem.count for problem in log.problems) >= 1


def test_a_first_line_torn_in_its_time() -> None:
    log = parse(LOG.replace("in s: 1.25\n", "in s: 1.2\n5\n"))
    assert found(log) == [(0, None), *STEPS[1:]]


def test_glued_lines_are_read_apart() -> None:
    lines = LOG.splitlines(keepends=True)
    log = parse(lines[0] + lines[1].rstrip("\n") + lines[2] + "".join(lines[3:]))
    assert found(log) == STEPS
    assert "1 lines glued together, read apart, first at <stdin>:2" in map(str, log.problems)


def test_another_streams_words_in_the_middle() -> None:
    log = parse(LOG.replace("in s: 1.27 ", "in s: 1.2TRAIN DONE7 "))
    assert found(log)[2] == (2, None)
    assert [problem.kind for problem in log.problems] == [
        "step lines read in part",
        "step lines without a usable step time",
    ]


def test_a_line_without_its_step_is_counted_and_shown() -> None:
    log = parse(LOG + "noise\nTraining epoch 0, iteration 6/99 | lr: 0.0001 | global_ba\n")
    assert found(log) == STEPS
    (problem,) = log.problems
    assert str(problem) == "1 step lines not understood, first at <stdin>:8"
    assert problem.example == "Training epoch 0, iteration 6/99 | lr: 0.0001 | global_ba"


def test_carriage_returns_end_lines() -> None:
    assert found(parse(LOG.replace("\n", "\r"))) == STEPS
    assert found(parse(LOG.replace("\n", "\r\n"))) == STEPS


def test_interleaved_ranks_keep_their_own_steps() -> None:
    lines = [nemo(step, 1 + rank + step / 100, f"{rank}: ") for step in range(4) for rank in (1, 0, 3)]
    log = parse("".join(lines))
    assert [(step.rank, step.step, step.step_time_s) for step in log.steps] == [
        (rank, step, 1 + rank + step / 100) for rank in (0, 1, 3) for step in range(4)
    ]
    assert [rank.rank for rank in log.ranks] == [0, 1, 3]
    assert log.restarts == 0


def test_after_a_restart_the_last_attempt_wins() -> None:
    again = "".join(nemo(step, 2.25 + step / 100, loss=5.4) for step in range(3, 8))
    log = parse(LOG + again)
    assert found(log) == [*STEPS[:3], *((step, 2.25 + step / 100) for step in range(3, 8))]
    assert [step.attempt for step in log.steps] == [0, 0, 0, 1, 1, 1, 1, 1]
    assert (log.restarts, log.superseded) == (1, 3)


def test_the_same_line_twice_is_no_restart() -> None:
    log = parse("".join(2 * line for line in LOG.splitlines(keepends=True)))
    assert found(log) == STEPS
    assert (log.restarts, log.superseded) == (0, 0)
    assert "6 step lines repeat another one and were dropped" in log.notes


def test_a_log_once_with_labels_and_once_without_is_one_log() -> None:
    labelled = "".join(f"0: {line}" for line in LOG.splitlines(keepends=True))
    log = parse(labelled + LOG)
    assert found(log) == STEPS
    assert [rank.rank for rank in log.ranks] == [0]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_loss_that_is_no_number_stays_what_it_is(value: str) -> None:
    log = parse(LOG.replace("reduced_train_loss: 5.5", f"reduced_train_loss: {value}", 2))
    loss = log.steps[1].loss
    assert loss is not None
    assert not math.isfinite(loss)
    assert str(loss) == value


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "0.0"])
def test_a_time_that_is_none_is_missing(value: str) -> None:
    log = parse(LOG.replace("in s: 1.27 ", f"in s: {value} "))
    assert found(log)[2] == (2, None)
    assert len(log.problems) == 2


def test_the_first_place_of_a_problem_is_told_deep_in_a_file(tmp_path: Path) -> None:
    noise = "a line that is none of ours, number 0123456789\n"
    path = tmp_path / "deep.log"
    later = "".join(nemo(step, 1.5) for step in range(6, 12))
    path.write_text(LOG + noise * 250_000 + later + "Training epoch 0\n")
    log = parse_files([path])
    assert len(log.steps) == 12
    assert (log.steps[0].line, log.steps[5].line) == (1, 6)
    assert log.steps[6].line is None
    assert log.steps[6].offset == len(LOG) + 250_000 * len(noise)
    (problem,) = log.problems
    assert str(problem) == f"1 step lines not understood, first at {path}:250013"


def test_no_known_format_is_said_with_what_is_known() -> None:
    with pytest.raises(UserError) as caught:
        parse("step 1: 0.5 s\nstep 2: 0.5 s\n", "train.log")
    assert str(caught.value) == (
        "no step line of a known format in train.log (28 bytes)\n"
        "  known are: NeMo (dllogger), NeMo 2 (progress printer), Megatron-Bridge, Megatron-LM, MaxText, PAXML, "
        "nccl-tests, NeMo 1 (tqdm progress bars)\n"
        "  NeMo prints its steps on rank 0, Megatron on the last rank, PAXML on stderr: is it the right file?"
    )


def test_an_empty_log_is_of_no_format() -> None:
    with pytest.raises(UserError, match=r"no step line of a known format in <stdin> \(0 bytes\)"):
        parse("")


def test_a_run_that_never_reached_its_first_step_is_known_by_its_other_lines() -> None:
    log = parse("[NeMo I 2026-11-30 23:09:09 nemo_logging:393] Experiments will be logged at /tmp/exp\n")
    assert (log.format, log.steps) == ("nemo2", ())


FAILURES = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": "cuda_out_of_memory",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory": "cuda_out_of_memory",
    "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***": "time_limit",
    "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO NODE FAILURE ***": "node_failure",
    "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T10:00:00 ***": "cancelled",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.": "out_of_host_memory",
    "RuntimeError: No CUDA GPUs are available": "no_cuda_device",
    "E x.cc:265] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected": "no_cuda_device",
    "OSError: [Errno 28] No space left on device": "disk_full",
    "torch.distributed.DistBackendError: NCCL error: ncclSystemError: System call failed": "nccl",
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)": "nccl",
    "NCCL operation ncclGroupEnd() failed: unhandled cuda error": "nccl",
    "F Terminating process because of missing heartbeats from task 7": "heartbeat",
    "Unknown flag in XLA_FLAGS: --xla_no": "xla_unknown_flag",
    "Unknown flag(s) in XLA_FLAGS: --xla_no": "xla_unknown_flag",
    "srun: error: n1: task 3: Exited with exit code 9": "rank_failed",
    "srun: error: n1: tasks 0-7: Killed": "rank_failed",
    "Fatal Python error: Aborted": "crash",
    "ValueError: bad value": "exception",
}


@pytest.mark.parametrize(("text", "kind"), FAILURES.items(), ids=FAILURES)
def test_known_failures(text: str, kind: str) -> None:
    log = parse(f"{LOG}3: {text}\n")
    (failure,) = log.failures
    assert (failure.kind, failure.rank, failure.line) == (kind, 3, 7)
    assert failure.message.endswith(text[-40:])
    assert failure.advice


def test_an_error_that_the_run_survived_is_not_fatal() -> None:
    later = "".join(nemo(step, 1.5) for step in range(6, 12))
    log = parse(f"{LOG}torch.OutOfMemoryError: CUDA out of memory.\n{later}")
    assert [failure.fatal for failure in log.failures] == [False]
    assert [failure.fatal for failure in parse(f"{LOG}CUDA out of memory. error\n").failures] == [True]
