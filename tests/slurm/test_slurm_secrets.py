"""A token of the launching shell reaches every rank, and stands in no file, command line or state of Slurm's."""

from __future__ import annotations

import os
import stat
import subprocess
import uuid
from pathlib import Path

import pytest

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import Submission
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

pytestmark = pytest.mark.slurm

NEEDLE = f"hf_{uuid.uuid4().hex}"
TOKEN = f"{NEEDLE} $x'"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)


def holders(lab: Lab, submission: Submission) -> list[str]:
    """Where the token stands that anyone but the job's ranks and this process could read it."""
    places = [Path(submission.run_dir).parent, lab.root / "state", lab.root / "spool", lab.root / "log"]
    found = subprocess.run(
        ["grep", "-rlF", NEEDLE, *map(str, places)], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if NEEDLE in lab.slurm("scontrol", "show", "job", submission.job_id):
        found.append("scontrol show job")
    if NEEDLE in lab.slurm("scontrol", "write", "batch_script", submission.job_id, "-"):
        found.append("the batch script")
    return found + lab.node_processes(NEEDLE)


def test_a_token_reaches_each_rank_and_nothing_else(lab: Lab, home: Path) -> None:
    image = lab.image("plain:token")
    check = '[ "$HF_TOKEN" = "$(cat "$0")" ] && echo it is here; sleep 3'
    copy = home.parent / "expected"
    copy.write_text(TOKEN)
    submission = launch_stages(
        [{"name": "train", "argv": ["bash", "-c", check, str(copy)]}],
        executor(nodes=2, ntasks_per_node=4, container_image=image),
    )
    assert submission.secret_file is not None
    wait_for_stage(submission, "train")
    logs = Path(submission.run_dir) / "logs/train/attempt-0"
    wait_until(lambda: sum(path.read_text().count("it is here") for path in logs.glob("node-*.log")) == 8)
    assert holders(lab, submission) == [], "while the job runs"
    assert not Path(submission.secret_file).exists(), "the script removed it once no attempt needs it"
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    assert holders(lab, submission) == [], "after the job"


def test_the_search_finds_what_slurms_default_writes(lab: Lab, home: Path) -> None:
    """The search above can fail: sbatch with the token in its environment leaves it in StateSaveLocation."""
    job_id = lab.slurm("sbatch", "--parsable", "--hold", "--wrap=true").strip()
    found = subprocess.run(
        ["grep", "-rlF", NEEDLE, str(lab.root / "state")], capture_output=True, text=True, check=False
    ).stdout
    lab.slurm("scancel", job_id)
    for path in found.splitlines():
        Path(path).unlink(missing_ok=True)  # Slurm keeps it after the job
    assert "environment" in found


def test_the_file_is_its_owners_alone_until_the_job_starts_and_gone_if_it_never_does(
    lab: Lab, home: Path
) -> None:
    submission = launch_stages([{"name": "train", "argv": ["true"]}], executor(sbatch_extras={"hold": None}))
    assert submission.secret_file is not None
    path = Path(submission.secret_file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.is_relative_to(Path(submission.run_dir).parent)
    assert holders(lab, submission) == []
    from nemo_run import Experiment

    experiment = Experiment.from_id(Path(submission.run_dir).parent.name)
    experiment.cancel("task")
    wait_for_end(submission)
    assert not path.exists()


def test_each_attempt_of_a_retried_job_may_read_it(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": bash('test -n "$HF_TOKEN"; sleep 2')}], executor(retries=1)
    )
    assert submission.secret_file is not None
    wait_for_stage(submission, "train")
    assert Path(submission.secret_file).exists()
    assert wait_for_end(submission).state is JobState.COMPLETED
    assert not Path(submission.secret_file).exists()


def test_a_file_of_the_users_own_is_read_and_kept(lab: Lab, home: Path, tmp_path: Path) -> None:
    own = tmp_path / "tokens"
    own.write_text("OTHER=x\nHF_TOKEN=from the file\n")
    own.chmod(0o600)
    submission = launch_stages(
        [{"name": "train", "argv": bash('[ "$HF_TOKEN" = "from the file" ]')}],
        executor(secrets=["HF_TOKEN"], secret_file=str(own)),
    )
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    assert own.exists()


def test_a_token_in_env_vars_is_refused() -> None:
    with pytest.raises(ExecutorError) as raised:
        executor(env_vars={"HF_TOKEN": os.environ["HF_TOKEN"]})
    assert str(raised.value) == (
        "env_vars holds the value of HF_TOKEN, which would end up in the script and in YAML files\n"
        "  instead: set HF_TOKEN in the environment that launches: it is passed on by name"
    )
