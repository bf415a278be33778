"""A job's logs as lines, from a run folder as the script writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudai_run.executors import logs
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.logs import failure_lines, follow_lines, read_logs
from cloudai_run.executors.shell import LocalShell
from cloudai_run.executors.stage_records import StageRun
from cloudai_run.executors.submission import Submission, write_submission


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    run_dir = tmp_path / "a run"
    run_dir.mkdir()
    made = Submission(
        kind="local",
        job_id="task-1",
        task="task",
        job_name="task",
        run_dir=str(run_dir),
        cluster_dir=str(run_dir),
        stages=("profile", "perf"),
        submitted_unix_s=1.0,
    )
    write_submission(made)
    return made


def write(submission: Submission, path: str, text: bytes) -> None:
    file = Path(submission.run_dir, "logs", path)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab") as log:
        log.write(text)


def test_stages_come_in_their_order_and_attempts_apart(submission: Submission) -> None:
    write(submission, "perf/attempt-0/rank-0.log", b"perf")
    write(submission, "profile/attempt-1/rank-0.log", b"again\r\n")
    write(submission, "profile/attempt-0/rank-0.log", "f\u00fcnf\n\nsix\n".encode())
    write(submission, "load-main/attempt-0/rank-0.log", b"loaded\n")
    assert list(read_logs(submission.run_dir)) == [
        "==> stage load-main, rank 0",
        "loaded",
        "==> stage profile, rank 0",
        "f\u00fcnf",
        "",
        "six",
        "==> stage perf, rank 0",
        "perf",
        "==> stage profile, rank 0, attempt 1",
        "again",
    ]


def test_another_rank_is_found_on_its_node(submission: Submission) -> None:
    write(submission, "perf/attempt-0/node-0-n1.log", b" 0: a\n 1: b\n10: not one\n")
    write(submission, "perf/attempt-0/node-1-n2.log", b"11: c: d\n11:  indented\n11:\n")
    write(submission, "perf/attempt-0/rank-0.log", b"a\n")
    assert list(read_logs(submission.run_dir, stage="perf", rank=1)) == ["==> stage perf, rank 1", "b"]
    assert list(read_logs(submission.run_dir, rank=11)) == [
        "==> stage perf, rank 11",
        "c: d",
        " indented",
        "",
    ]
    assert list(read_logs(submission.run_dir, rank=5)) == []


def test_a_stage_that_is_not_there_is_named(submission: Submission) -> None:
    with pytest.raises(ExecutorError) as raised:
        read_logs(submission.run_dir, stage="pref")
    assert str(raised.value) == "the run has no stage pref\n  its stages: profile, perf"


def test_following_yields_whole_lines_until_the_end(
    submission: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FOLLOW_INTERVAL_S", 0)
    log = "profile/attempt-0/rank-0.log"
    writes: Iterator[bytes] = iter([b"one\ntw", b"o\nth", b"ree"])

    def ended() -> bool:
        text = next(writes, None)
        if text is not None:
            write(submission, log, text)
        return text is None

    got = list(follow_lines(submission, LocalShell(), ended))
    assert got == ["==> stage profile, rank 0", "one", "two", "three"]


def test_the_line_of_the_rank_that_failed(submission: Submission) -> None:
    write(submission, "perf/attempt-0/node-0-n1.log", b" 0: fine\n")
    write(
        submission,
        "perf/attempt-0/node-1-n2.log",
        b"16: fine\n17: ValueError: the cause\n17: \n17: slurmstepd-n2: error: *** STEP 7.1 CANCELLED ***\n16: later\n",
    )
    failed = StageRun("perf", 0, ("n1", "n2"), 1.0, 2.0, 9, "n2: tasks 17-18: Exited with exit code 9")
    assert failure_lines(submission, LocalShell(), failed) == ("n2", "ValueError: the cause")
    silent = StageRun("profile", 0, ("n1",), 1.0, 2.0, 9, "")
    assert failure_lines(submission, LocalShell(), silent) == (None, None)


def test_the_line_of_a_job_that_failed_outside_of_a_stage(submission: Submission) -> None:
    output = Path(submission.run_dir, "slurm-7.out")
    output.write_text(
        '{"stage": "set-up"}\ncat: /no/such: No such file\ncloudai-run: set-up failed with exit code 1\n'
    )
    assert failure_lines(submission, LocalShell(), None) == (None, "cat: /no/such: No such file")
