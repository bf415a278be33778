"""The controller goes away and comes back while a job runs. Last of all: Slurm then waits a minute for its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run.executors.jobs import outcome
from cloudai_run.executors.states import JobState
from tests.slurm.lab import Lab, bash, executor, launch_stages, wait_for_end, wait_for_stage

pytestmark = pytest.mark.slurm


def test_slurmctld_is_restarted(lab: Lab, home: Path) -> None:
    # The stage outlives the restart: a new srun would wait a minute for the nodes to be known again.
    submission = launch_stages([{"name": "train", "argv": bash("sleep 7; exit 6")}], executor(nodes=2))
    wait_for_stage(submission, "train")
    lab.command("kill", "ctld")
    assert not outcome(submission.run_dir).state.ended
    lab.command("up", "ctld")
    end = wait_for_end(submission)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 6, "train")
