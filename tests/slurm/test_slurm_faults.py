"""What goes wrong on a cluster: each job still ends in the right state, and nothing that was written is lost.

Here a lost node is noticed after 6 s (SlurmdTimeout); Slurm's smallest time limit is one minute. The slow faults go
on at the same time: their jobs start with the first test that needs one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nemo_run as run
import pytest
from nemo_run.config import get_nemorun_home, set_nemorun_home
from torchx.specs.api import AppState

from cloudai_run.executors.jobs import outcome
from cloudai_run.executors.logs import read_logs
from cloudai_run.executors.shell import LocalShell
from cloudai_run.executors.slurm_query import ask_slurm
from cloudai_run.executors.stage_records import parse_stages
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import Submission, read_submission
from tests.slurm.lab import (
    Lab,
    bash,
    executor,
    job_output,
    launch_stages,
    wait_for_end,
    wait_for_stage,
    wait_until,
)
from tests.slurm.workloads import recipe

pytestmark = pytest.mark.slurm


@dataclass(frozen=True)
class SlowJobs:
    """Jobs whose faults take Slurm a while to notice."""

    out_of_time: Submission
    node_lost: Submission
    slurmd_lost: Submission
    node_lost_and_retried: Submission


@pytest.fixture(scope="module")
def slow(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowJobs]:
    """Starts them, and takes their nodes away once their first stage has begun."""
    before = get_nemorun_home()
    set_nemorun_home(str(tmp_path_factory.mktemp("slow") / "home"))
    two = [
        {"name": "first", "argv": bash("echo first was here")},
        {
            "name": "second",
            "argv": bash('echo begun on $(hostname); [ -n "$SLURM_RESTART_COUNT" ] || sleep 45 && echo over'),
        },
    ]
    out_of_time = launch_stages(
        [{"name": "train", "argv": bash("echo one line; sleep 300")}], executor(time="1", nodelist="node1")
    )
    node_lost = launch_stages(two, executor(nodelist="node[3-4]"))
    slurmd_lost = launch_stages(two, executor(nodelist="node5"))
    retried = launch_stages(two, executor(nodes=2, exclude="node[1-5]", retries=1))
    for submission in (node_lost, slurmd_lost, retried):
        wait_for_stage(submission, "second")
    nodes = outcome_nodes(retried)
    wait_until(lambda: all(len(second_lines(one)) == len(outcome_nodes(one)) for one in (node_lost, retried)))
    lab.command("kill", "node4")
    lab.command("kill", "slurmd5")
    lab.command("kill", nodes[-1])
    yield SlowJobs(out_of_time, node_lost, slurmd_lost, retried)
    for node in ("node4", "node5", nodes[-1]):
        lab.command("up", node)
    set_nemorun_home(before)


def outcome_nodes(submission: Submission) -> tuple[str, ...]:
    return parse_stages((Path(submission.run_dir) / "stages.jsonl").read_text())[-1].nodes


def second_lines(submission: Submission, attempt: int = 0) -> list[str]:
    logs = Path(submission.run_dir).glob(f"logs/second/attempt-{attempt}/node-*.log")
    return [line for path in logs for line in path.read_text().splitlines()]


CLIENT = """
import nemo_run as run
from tests.slurm.lab import executor
from tests.slurm.workloads import recipe
stages = [{"name": "train", "argv": ["bash", "-c", "echo begun; sleep 4; echo ended"]}]
run.run(run.Partial(recipe, stages=stages), executor=executor(nodes=2), name="killed", tail_logs=True)
"""


def test_the_client_is_killed(lab: Lab, home: Path, slow: SlowJobs) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (run_dir,) = wait_until(
        lambda: [path.parent for path in home.glob("experiments/killed/*/killed/submission.json")]
    )
    submission = read_submission(run_dir)
    assert submission is not None
    wait_for_stage(submission, "train")
    client.kill()
    client.wait()
    end = wait_for_end(submission)
    assert (end.state, end.exit_code, end.note) == (JobState.COMPLETED, 0, None)
    assert list(read_logs(run_dir)) == ["==> stage train, rank 0", "begun", "ended"]


def test_a_rank_is_killed(lab: Lab, home: Path, slow: SlowJobs) -> None:
    submission = launch_stages(
        [
            {
                "name": "train",
                "argv": bash("echo $SLURM_PROCID begins; [ $SLURM_PROCID != 1 ] || kill -9 $$; sleep 60"),
            }
        ],
        executor(nodes=2, exclude="node[3-5]"),
    )
    end = wait_for_end(submission)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 137, "train")
    assert end.log_line == "1 begins"
    assert "Killed" in end.reason


def test_scancel(lab: Lab, home: Path, slow: SlowJobs) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": bash("echo begun; sleep 60")}, {"name": "never", "argv": ["true"]}],
        executor(nodes=2),
    )
    wait_for_stage(submission, "train")
    wait_until(lambda: "begun" in list(read_logs(submission.run_dir)))
    lab.slurm("scancel", submission.job_id)
    end = wait_for_end(submission)
    assert (end.state, end.stage, end.log_line) == (JobState.CANCELLED, "train", "begun")
    runs = wait_until(lambda: ended_runs(submission))
    assert [(run.stage, run.exit_code) for run in runs] == [("train", runs[0].exit_code)]
    assert not (Path(submission.run_dir) / "logs" / "never").exists()


def ended_runs(submission: Submission) -> list:
    runs = parse_stages((Path(submission.run_dir) / "stages.jsonl").read_text())
    return [run for run in runs if run.exit_code is not None]


def test_the_disk_of_the_run_folder_is_full(lab: Lab, home: Path, slow: SlowJobs) -> None:
    small, before = lab.root / "small", get_nemorun_home()
    set_nemorun_home(str(small / "home"))
    try:
        submission = launch_stages(
            [
                {"name": "first", "argv": bash("echo all is well")},
                {
                    "name": "fills",
                    "argv": bash("dd if=/dev/zero of=fill bs=1k count=4096 2>/dev/null; true"),
                    "workdir": str(small),
                },
                {"name": "fails", "argv": bash("echo no room for this; exit 5")},
            ],
            executor(nodes=1),
        )
        end = wait_for_end(submission)
        assert (end.state, end.exit_code) == (JobState.FAILED, 5), job_output(submission)
        runs = parse_stages((Path(submission.run_dir) / "stages.jsonl").read_text())
        assert (runs[0].stage, runs[0].exit_code) == ("first", 0)
        (log,) = Path(submission.run_dir).glob("logs/first/attempt-0/node-*.log")
        assert log.read_text() == "0: all is well\n"
    finally:
        set_nemorun_home(before)
        for path in small.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_failed_stage_is_not_tried_again(lab: Lab, home: Path, slow: SlowJobs) -> None:
    submission = launch_stages([{"name": "train", "argv": bash("exit 3")}], executor(retries=2))
    end = wait_for_end(submission)
    assert (end.state, end.exit_code, end.attempt, end.attempts) == (JobState.FAILED, 3, 0, ())
    assert "Requeue=0" in lab.slurm("scontrol", "show", "job", submission.job_id)


def test_a_node_is_lost(lab: Lab, home: Path, slow: SlowJobs) -> None:
    end = wait_for_end(slow.node_lost, timeout_s=60)
    assert (end.state, end.stage, end.attempts) == (JobState.NODE_FAIL, "second", ())
    runs = parse_stages((Path(slow.node_lost.run_dir) / "stages.jsonl").read_text())
    assert (runs[0].stage, runs[0].exit_code) == ("first", 0)
    assert {"0: begun on node3", "1: begun on node4"} <= set(second_lines(slow.node_lost))


def test_a_node_is_lost_and_the_job_tried_again(lab: Lab, home: Path, slow: SlowJobs) -> None:
    end = wait_for_end(slow.node_lost_and_retried, timeout_s=90)
    assert (end.state, end.exit_code, end.attempt) == (JobState.COMPLETED, 0, 1), end.text()
    assert end.attempts == (JobState.NODE_FAIL,)
    runs = parse_stages((Path(slow.node_lost_and_retried.run_dir) / "stages.jsonl").read_text())
    assert [(run.attempt, run.stage) for run in runs] == [
        (0, "first"),
        (0, "second"),
        (1, "first"),
        (1, "second"),
    ]
    assert [run.exit_code for run in runs[2:]] == [0, 0]
    assert set(runs[1].nodes) != set(runs[3].nodes), "on other nodes"
    assert len(second_lines(slow.node_lost_and_retried, attempt=1)) == 4
    assert "over" not in " ".join(second_lines(slow.node_lost_and_retried)), "attempts' logs stay apart"


def test_a_slurmd_is_lost_and_its_script_lives_on(lab: Lab, home: Path, slow: SlowJobs) -> None:
    end = wait_for_end(slow.slurmd_lost, timeout_s=60)
    assert end.state is JobState.NODE_FAIL
    wait_until(lambda: len(ended_runs(slow.slurmd_lost)) == 2)
    end = outcome(slow.slurmd_lost.run_dir)
    assert end.state is JobState.NODE_FAIL, "Slurm's word wins"
    assert end.note is not None
    assert end.note.startswith(
        "Slurm lost a node, and that counts; the script lived on and wrote that stage second ended"
    )


def test_sacct_fails_for_a_minute(lab: Lab, home: Path, slow: SlowJobs) -> None:
    down_at = time.monotonic()
    lab.command("kill", "dbd")
    try:
        with run.Experiment("outage", enable_goodbye_message=False, skip_status_at_exit=True) as experiment:
            stages = [{"name": "train", "argv": bash("sleep 5; echo over")}]
            experiment.add(run.Partial(recipe, stages=stages), executor=executor(), name="waited")
            experiment.run()
        assert experiment.jobs[0].state is AppState.SUCCEEDED, "the client's own wait sees the end"
        failed = launch_stages([{"name": "train", "argv": bash("exit 8")}], executor())
        end = wait_for_end(failed)
        assert (end.state, end.exit_code, end.stage, end.source) == (JobState.FAILED, 8, "train", "scontrol")
        long = launch_stages([{"name": "train", "argv": bash("sleep 45; exit 2")}], executor())
        while time.monotonic() - down_at < 60:
            assert outcome(long.run_dir).state is not JobState.UNKNOWN
            time.sleep(1)
        end = outcome(long.run_dir)
        assert (end.state, end.exit_code, end.source) == (JobState.FAILED, 2, "scontrol")
    finally:
        lab.command("up", "dbd")
    wait_until(lambda: ask_slurm(long, LocalShell()).source == "sacct", timeout_s=30)
    end = wait_for_end(long)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 2, "train")


def test_the_time_limit(lab: Lab, home: Path, slow: SlowJobs) -> None:
    end = wait_for_end(slow.out_of_time, timeout_s=100)
    assert (end.state, end.stage, end.log_line) == (JobState.TIMEOUT, "train", "one line")


def test_a_stages_own_time_limit(lab: Lab, home: Path, slow: SlowJobs) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": bash("echo one line; sleep 60"), "timeout_s": 2}], executor(nodes=2)
    )
    end = wait_for_end(submission, timeout_s=30)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 124, "train")
    assert end.reason == "ended at its time limit of 2 s"
    assert end.log_line == "one line"


def test_ctrl_c_in_a_script_of_the_users(lab: Lab, home: Path, slow: SlowJobs) -> None:
    """The job of an interrupted client goes on."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (run_dir,) = wait_until(
        lambda: [path.parent for path in home.glob("experiments/killed/*/killed/submission.json")]
    )
    submission = read_submission(run_dir)
    assert submission is not None
    wait_for_stage(submission, "train")
    os.kill(client.pid, signal.SIGINT)
    assert wait_for_end(submission).state is JobState.COMPLETED
    client.kill()
    client.wait()
