"""LocalExecutor by NeMo-Run's Experiment: recipes as their stages, other tasks as under run.LocalExecutor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nemo_run as run
import pytest
from nemo_run.config import get_nemorun_home, set_nemorun_home
from torchx.specs.api import AppState

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.jobs import outcome
from cloudai_run.executors.local import LocalExecutor
from cloudai_run.executors.logs import read_logs
from cloudai_run.executors.options import NsysOptions
from cloudai_run.executors.outcome import JobFailedError
from cloudai_run.executors.plan import NodeVar
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import read_submission
from tests.slurm import workloads

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Iterator[Path]:
    before = get_nemorun_home()
    path = tmp_path / "a home"
    set_nemorun_home(str(path))
    yield path
    set_nemorun_home(before)


def stages(*commands: str) -> run.Partial:
    made = [{"name": f"s{at}", "argv": ["bash", "-c", text]} for at, text in enumerate(commands)]
    return run.Partial(workloads.recipe, stages=made)


def launch(task: run.Partial | run.Script, on: LocalExecutor) -> Path:
    """Runs a task to its end; returns its run folder."""
    with run.Experiment("local", enable_goodbye_message=False, skip_status_at_exit=True) as experiment:
        experiment.add(task, executor=on, name="task")
        experiment.run(detach=True)
    return Path(experiment.jobs[0].executor.job_dir)


def test_a_recipe_runs_its_stages_on_each_rank() -> None:
    env = {"RANK_WORD": ("r", NodeVar("SLURM_PROCID")), "Quoted": 'it\'s $HOME; "x"'}
    run_dir = launch(
        stages("echo $RANK_WORD of $SLURM_NTASKS", 'echo "$Quoted"'),
        LocalExecutor(ntasks_per_node=2, env_vars=env),
    )
    end = outcome(run_dir)
    assert (end.state, end.exit_code, end.note) == (JobState.COMPLETED, 0, None)
    assert list(read_logs(run_dir)) == [
        "==> stage s0, rank 0",
        "r0 of 2",
        "==> stage s1, rank 0",
        'it\'s $HOME; "x"',
    ]
    assert list(read_logs(run_dir, stage="s0", rank=1)) == ["==> stage s0, rank 1", "r1 of 2"]


def test_a_failed_stage_ends_the_run_and_the_block() -> None:
    def experiment() -> None:
        with run.Experiment("fails", enable_goodbye_message=False, skip_status_at_exit=True) as experiment:
            task = stages("echo the cause; exit 7", "echo never")
            experiment.add(task, executor=LocalExecutor(), name="task")
            experiment.run()

    with pytest.raises(JobFailedError) as raised:
        experiment()
    (end,) = raised.value.outcomes
    assert (end.state, end.exit_code, end.stage, end.log_line) == (JobState.FAILED, 7, "s0", "the cause")


def test_a_failing_set_up_line_fails_the_run() -> None:
    run_dir = launch(stages("true"), LocalExecutor(setup_lines="cat /no/such/file\necho after"))
    end = outcome(run_dir)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 1, "set-up")


def test_the_dry_run_prints_the_bytes_that_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run.Experiment("dry", enable_goodbye_message=False, skip_status_at_exit=True) as experiment:
        experiment.add(stages("true"), executor=LocalExecutor(env_vars={"LONG": "x" * 300}), name="task")
        experiment.dryrun()
        printed = capsys.readouterr().out
        assert not list((home / "experiments" / "dry").iterdir()), "a dry run leaves nothing"
        experiment.run()
    script = (Path(experiment.jobs[0].executor.job_dir) / "local.sh").read_text()
    assert script in printed


def test_a_partial_and_a_script_of_the_users_own_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_PROCID", "0")
    env = {"cr_a": "it's $x", "PYTHONPATH": str(REPOSITORY)}
    task = run.Partial(workloads.write_environment, folder=str(tmp_path), names=["cr_a"])
    run_dir = launch(task, LocalExecutor(ntasks_per_node=2, env_vars=env))
    assert outcome(run_dir).state is JobState.COMPLETED, list(read_logs(run_dir))
    assert (tmp_path / "0.cr_a").read_bytes() == b"it's $x"

    script = run.Script(inline='echo "here: $cr_a"', env={"cr_a": "a b"})
    run_dir = launch(script, LocalExecutor(ntasks_per_node=2))
    assert list(read_logs(run_dir)) == ["==> stage task, rank 0", "here: a b"]


def test_a_stage_is_profiled_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nsys is a recording stand-in here: tests/slurm/bin/nsys."""
    monkeypatch.setenv("PATH", f"{REPOSITORY / 'tests/slurm/bin'}:{os.environ['PATH']}")
    log = tmp_path / "nsys.log"
    monkeypatch.setenv("CLOUDAI_RUN_NSYS_LOG", str(log))
    run_dir = launch(
        stages("true", "true"), LocalExecutor(ntasks_per_node=2, nsys=NsysOptions(stages=["s1"], ranks=[1]))
    )
    assert outcome(run_dir).state is JobState.COMPLETED
    (line,) = log.read_text().splitlines()
    assert line.split()[1] == "1"
    assert [path.name for path in (run_dir / "nsys").iterdir()] == ["task.s1.rank1.nsys-rep"]


CLIENT = """
import nemo_run as run
from cloudai_run.executors.local import LocalExecutor
from tests.slurm import workloads
stages = [{"name": "train", "argv": ["bash", "-c", "echo begun; sleep 2; echo over"]}]
task = run.Partial(workloads.recipe, stages=stages)
run.run(task, executor=LocalExecutor(), name="task", tail_logs=False)
"""


def start_client(home: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """A client of its own that waits for a run; returns it and the run folder once the stage has begun."""
    env = {**os.environ, "NEMORUN_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    client = subprocess.Popen([sys.executable, "-c", CLIENT], env=env, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in home.glob("experiments/task/*/task/submission.json"):
            if outcome(path.parent).stage == "train":
                return client, path.parent
        time.sleep(0.1)
    raise AssertionError("the client started nothing")


def test_after_the_client_was_killed_the_folder_still_tells(home: Path) -> None:
    client, run_dir = start_client(home)
    client.kill()
    client.wait()
    end = time.monotonic() + 30
    while not outcome(run_dir).state.ended and time.monotonic() < end:
        time.sleep(0.1)
    assert outcome(run_dir).state is JobState.COMPLETED
    assert list(read_logs(run_dir)) == ["==> stage train, rank 0", "begun", "over"]


def test_a_run_is_cancelled_from_another_client(home: Path) -> None:
    client, run_dir = start_client(home)
    again = run.Experiment.from_id(run_dir.parent.name)
    status = again.status(return_dict=True)
    assert status is not None
    assert status["task"]["status"] is AppState.RUNNING
    again.cancel("task")
    assert client.wait(timeout=30) != 0
    end = outcome(run_dir)
    assert (end.state, end.stage) == (JobState.CANCELLED, "train")
    assert end.reason == "the job was told to end (cancelled, out of time, or a node was lost)"


def test_a_run_whose_processes_are_gone_has_failed(home: Path) -> None:
    client, run_dir = start_client(home)
    submission = read_submission(run_dir)
    assert submission is not None
    assert submission.pid is not None
    client.kill()
    client.wait()
    os.killpg(submission.pid, signal.SIGKILL)
    time.sleep(0.2)
    end = outcome(run_dir)
    assert (end.state, end.stage) == (JobState.FAILED, "train")
    assert end.note == "its processes are gone without an end in the stages file"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": 2}, "LocalExecutor has one node, not 2\n  instead: an executor of Slurm"),
        ({"retries": 1}, "LocalExecutor does not retry: no node but this one can be lost"),
    ],
)
def test_what_one_machine_cannot_do_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutorError) as raised:
        LocalExecutor(**fields)
    assert str(raised.value) == message
