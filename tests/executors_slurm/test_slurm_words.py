"""What Slurm's commands print, read as data; the texts are Slurm 22.05's own."""

from __future__ import annotations

import pytest

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.slurm_words import Attempt, parse_job_id, parse_sacct, parse_scontrol, parse_squeue
from cloudai_run.executors.states import APP_STATES, SLURM_STATES, JobState, job_state
from cloudai_run.executors.submit import sbatch_words


@pytest.mark.parametrize(
    ("stdout", "job"),
    [
        ("123\n", ("123", None)),
        ("123;night\n", ("123", "night")),
        ("Submitted batch job 123\n", ("123", None)),
        ("Submitted batch job 123 on cluster night\n", ("123", "night")),
        ("sbatch: warning: can't run 1 processes on 2 nodes\nAccount: bench\n123\n", ("123", None)),
        (
            "sbatch: 4 jobs are queued\nSubmitted batch job 1234567\nsbatch: your project has 12 hours left\n",
            ("1234567", None),
        ),
        ("  123;night  \r\n", ("123", "night")),
    ],
)
def test_job_id(stdout: str, job: tuple[str, str | None]) -> None:
    assert parse_job_id(stdout) == job


@pytest.mark.parametrize("stdout", ["", "\n", "sbatch: error: 2 jobs are too many\n", "job 12 was refused\n"])
def test_no_job_id(stdout: str) -> None:
    with pytest.raises(ExecutorError, match="sbatch named no job id; it printed: "):
        parse_job_id(stdout)


def test_a_word_that_no_table_knows_is_unknown() -> None:
    assert job_state("HIBERNATING") is JobState.UNKNOWN
    assert job_state("") is JobState.UNKNOWN
    assert job_state("CANCELLED by 1000") is JobState.CANCELLED
    assert job_state("CANCELLED+") is JobState.CANCELLED
    assert job_state("COMPLETING") is JobState.RUNNING
    assert set(APP_STATES) == set(JobState)
    assert set(SLURM_STATES.values()) == set(JobState) - {JobState.UNKNOWN}


def test_states_that_end() -> None:
    assert {state for state in JobState if not state.ended} == {
        JobState.PENDING,
        JobState.RUNNING,
        JobState.UNKNOWN,
    }
    assert [state for state in JobState if state.succeeded] == [JobState.COMPLETED]


NEW, OLD = 1_796_089_937, 1_796_000_000


@pytest.mark.parametrize(
    ("stdout", "attempts"),
    [
        ("", []),
        ("slurm_load_jobs error: Socket timed out on send/recv operation\n", []),
        (f"7|RUNNING|0:0|node[1-2]|None|{NEW}\n", [Attempt(JobState.RUNNING, nodes="node[1-2]", restarts=0)]),
        (f"7|FAILED|9:0|node1|None|{NEW}\n", [Attempt(JobState.FAILED, 9, 0, "node1", restarts=0)]),
        (f"7|TIMEOUT|0:0|node1|None|{NEW}\n", [Attempt(JobState.TIMEOUT, 0, 0, "node1", restarts=0)]),
        (
            f"7|CANCELLED by 0|0:15|node1|None|{NEW}\n",
            [Attempt(JobState.CANCELLED, 0, 15, "node1", restarts=0)],
        ),
        (
            f"7|PENDING|0:0|None assigned|Resources|{NEW}\n",
            [Attempt(JobState.PENDING, reason="Resources", restarts=0)],
        ),
        (
            f"7|CANCELLED|0:0|None assigned|Dependency|{NEW}\n",
            [Attempt(JobState.CANCELLED, 0, reason="a job that it depends on did not succeed", restarts=0)],
        ),
        (
            f"7|CANCELLED by 0|0:0|None assigned|Dependency|{NEW}\n",
            [Attempt(JobState.CANCELLED, 0, restarts=0)],
        ),
        (
            f"7|NODE_FAIL|0:0|node[1-2]|None|{NEW}\n7|COMPLETED|0:0|node[3-4]|None|{NEW + 60}\n",
            [
                Attempt(JobState.NODE_FAIL, 0, 0, "node[1-2]", restarts=0),
                Attempt(JobState.COMPLETED, 0, 0, "node[3-4]", restarts=1),
            ],
        ),
        (  # the id of an older job, given again by a controller that lost its state
            f"7|COMPLETED|0:0|node9|None|{OLD}\n7|FAILED|2:0|node1|None|{NEW}\n",
            [Attempt(JobState.FAILED, 2, 0, "node1", restarts=0)],
        ),
        (f"70|FAILED|2:0|node1|None|{NEW}\n7|FAILED|2:0|node1\n", []),
        (f"7|HIBERNATING|0:0|node1|None|{NEW}\n", [Attempt(JobState.UNKNOWN, nodes="node1", restarts=0)]),
    ],
)
def test_sacct(stdout: str, attempts: list[Attempt]) -> None:
    assert parse_sacct(stdout, "7", submitted_unix_s=NEW + 5) == tuple(attempts)


SCONTROL = (
    "JobId=7 JobName=train UserId=u(1) GroupId=g(1) Comment=JobState=COMPLETED JobState={state} Reason={reason} "
    "Requeue=1 Restarts={restarts} BatchFlag=1 ExitCode={code} NodeList={nodes} BatchHost=node1\n"
)


@pytest.mark.parametrize(
    ("fields", "attempt"),
    [
        (
            {"state": "RUNNING", "reason": "None", "restarts": 1, "code": "0:0", "nodes": "node[1-2]"},
            Attempt(JobState.RUNNING, nodes="node[1-2]", restarts=1),
        ),
        (
            {"state": "FAILED", "reason": "NonZeroExitCode", "restarts": 0, "code": "9:0", "nodes": "node1"},
            Attempt(JobState.FAILED, 9, 0, "node1", "NonZeroExitCode", restarts=0),
        ),
        (
            {
                "state": "CANCELLED",
                "reason": "DependencyNeverSatisfied",
                "restarts": 0,
                "code": "0:0",
                "nodes": "(null)",
            },
            Attempt(JobState.CANCELLED, 0, reason="a job that it depends on did not succeed", restarts=0),
        ),
    ],
)
def test_scontrol(fields: dict[str, object], attempt: Attempt) -> None:
    text = SCONTROL.format(**fields).replace("Comment=JobState=COMPLETED ", "Comment=a ")
    assert parse_scontrol(text, "7", "train") == attempt
    assert parse_scontrol(text, "8", "train") is None
    assert parse_scontrol(text, "7", "another") is None


def test_squeue() -> None:
    assert parse_squeue("7|PENDING||Priority\n", "7") == Attempt(JobState.PENDING, reason="Priority")
    assert parse_squeue("7|RUNNING|node[1-2]|None\n", "7") == Attempt(JobState.RUNNING, nodes="node[1-2]")
    assert parse_squeue("slurm_load_jobs error: Invalid job id specified\n", "7") is None


def test_sbatch_is_started_without_the_secrets() -> None:
    words = sbatch_words("/run/sbatch.sh", secrets=["HF_TOKEN", "WANDB_API_KEY"], dependencies=["7", "8"])
    assert words == [
        *("env", "-u", "HF_TOKEN", "-u", "WANDB_API_KEY"),
        *("sbatch", "--parsable", "--dependency=afterok:7:8", "--kill-on-invalid-dep=yes", "/run/sbatch.sh"),
    ]
    assert sbatch_words("/run/sbatch.sh") == ["env", "sbatch", "--parsable", "/run/sbatch.sh"]
