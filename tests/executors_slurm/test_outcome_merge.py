"""Slurm's word and the stages file, put together."""

from __future__ import annotations

import json

import pytest

from cloudai_run.executors.outcome import Outcome, merge
from cloudai_run.executors.slurm_words import Attempt
from cloudai_run.executors.stage_records import StageRun, failed_run, parse_stages
from cloudai_run.executors.states import JobState

STAGES = ("profile", "perf")


def run(stage: str, code: int | None = None, attempt: int = 0, reason: str = "") -> StageRun:
    return StageRun(stage, attempt, ("node1",), 1.0, None if code is None else 2.0, code, reason)


OK = (run("profile", 0), run("perf", 0))


@pytest.mark.parametrize(
    ("attempts", "runs", "expected"),
    [
        ([Attempt(JobState.COMPLETED, 0, restarts=0)], OK, Outcome(state=JobState.COMPLETED, exit_code=0)),
        (
            [Attempt(JobState.RUNNING, restarts=0)],
            (run("profile", 0), run("perf")),
            Outcome(state=JobState.RUNNING, stage="perf"),
        ),
        (  # sacct hears of a start late
            [Attempt(JobState.PENDING, reason="Priority", restarts=0)],
            (run("profile"),),
            Outcome(state=JobState.RUNNING, stage="profile", reason="Priority"),
        ),
        (
            [Attempt(JobState.FAILED, 9, restarts=0)],
            (run("profile", 9, reason="node1: task 3: Exited with exit code 9"),),
            Outcome(
                state=JobState.FAILED,
                exit_code=9,
                stage="profile",
                reason="node1: task 3: Exited with exit code 9",
            ),
        ),
        (  # sacct prints 137 as 9
            [Attempt(JobState.FAILED, 9, restarts=0)],
            (run("profile", 137),),
            Outcome(state=JobState.FAILED, exit_code=137, stage="profile"),
        ),
        (
            [Attempt(JobState.FAILED, 0, restarts=0)],
            (run("profile", 6),),
            Outcome(state=JobState.FAILED, exit_code=6, stage="profile"),
        ),
        (
            [Attempt(JobState.TIMEOUT, 0, restarts=0)],
            (run("profile"),),
            Outcome(state=JobState.TIMEOUT, exit_code=0, stage="profile"),
        ),
        (
            [Attempt(JobState.NODE_FAIL, 0, restarts=0)],
            OK,
            Outcome(
                state=JobState.NODE_FAIL,
                exit_code=0,
                note="Slurm lost a node, and that counts; the script lived on and wrote that stage perf ended with exit"
                " code 0",
            ),
        ),
        (
            [Attempt(JobState.NODE_FAIL, 0, restarts=0)],
            (run("profile", 0), run("perf")),
            Outcome(state=JobState.NODE_FAIL, exit_code=0, stage="perf"),
        ),
        (
            [Attempt(JobState.NODE_FAIL, 0, restarts=0), Attempt(JobState.COMPLETED, 0, restarts=1)],
            (run("profile", 0), run("perf"), run("profile", 0, 1), run("perf", 0, 1)),
            Outcome(state=JobState.COMPLETED, exit_code=0, attempt=1, attempts=(JobState.NODE_FAIL,)),
        ),
        (
            [Attempt(JobState.COMPLETED, 0, restarts=0)],
            (run("profile", 0),),
            Outcome(
                state=JobState.COMPLETED,
                exit_code=0,
                note="Slurm says COMPLETED; the stages file has no end of stage perf",
            ),
        ),
        (
            [Attempt(JobState.UNKNOWN, restarts=0)],
            (run("profile"),),
            Outcome(state=JobState.UNKNOWN, stage="profile"),
        ),
    ],
)
def test_slurm_and_the_stages_file(
    attempts: list[Attempt], runs: tuple[StageRun, ...], expected: Outcome
) -> None:
    got = merge(attempts, "stages", runs, STAGES)
    assert got == expected


@pytest.mark.parametrize(
    ("runs", "state", "code", "stage", "note"),
    [
        (OK, JobState.COMPLETED, 0, None, None),
        ((run("profile", 0), run("perf", 3)), JobState.FAILED, 3, "perf", None),
        (
            (run("profile", 0), run("perf")),
            JobState.UNKNOWN,
            None,
            "perf",
            "the stages file has no end of stage perf",
        ),
        ((run("profile", 0),), JobState.UNKNOWN, None, None, "the stages file does not tell of an end"),
        ((), JobState.UNKNOWN, None, None, "the stages file does not tell of an end"),
    ],
)
def test_a_job_that_slurm_does_not_know(
    runs: tuple[StageRun, ...], state: JobState, code: int | None, stage: str | None, note: str | None
) -> None:
    got = merge([], "sacct", runs, STAGES)
    assert (got.state, got.exit_code, got.stage, got.note, got.source) == (state, code, stage, note, "stages")


def test_text_names_stage_code_node_and_line() -> None:
    end = Outcome(
        state=JobState.FAILED,
        exit_code=9,
        stage="perf",
        node="node3",
        job_id="34",
        log_line="no such mesh",
        reason="node3: task 17: Exited with exit code 9",
    )
    assert end.text() == (
        "job 34 FAILED in stage perf with exit code 9 on node3: node3: task 17: Exited with exit code 9\n"
        "  last line of its log: no such mesh"
    )
    assert Outcome(state=JobState.RUNNING, stage="perf", job_id="34").text() == "job 34 RUNNING (stage perf)"
    assert Outcome(state=JobState.COMPLETED, exit_code=0, job_id="34").text() == "job 34 COMPLETED"


def test_torn_and_foreign_lines_are_passed_over() -> None:
    start = {
        "attempt": 0,
        "stage": "perf",
        "event": "start",
        "time_unix_s": 1.5,
        "nodes": ["n1", "n2"],
        "job_id": 7,
    }
    end = {**start, "event": "end", "time_unix_s": 3, "exit_code": 4, "reason": "n2: task 9: Killed"}
    text = "\n".join(
        ["", "[1]", '{"attempt": 0, "sta', json.dumps(start), "null", json.dumps(end), '{"stage": 3}']
    )
    assert parse_stages(text) == (StageRun("perf", 0, ("n1", "n2"), 1.5, 3.0, 4, "n2: task 9: Killed"),)


def test_the_run_that_a_job_ended_in() -> None:
    assert failed_run(OK) is None
    assert failed_run([run("profile", 0), run("perf")]) == run("perf")
    assert failed_run([run("profile", 2), run("perf")]) == run("profile", 2)
