"""What works for NeMo-Run's own Slurm executor works for this one: on the real cluster, by NeMo-Run's API and CLI."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nemo_run as run
import pytest
import yaml
from torchx.specs.api import AppState

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.jobs import outcome
from cloudai_run.executors.logs import read_logs
from cloudai_run.executors.outcome import JobFailedError
from cloudai_run.executors.slurm import SlurmExecutor
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import add_to_index, read_submission
from tests.slurm.lab import (
    Lab,
    bash,
    executor,
    job_output,
    launch,
    launch_stages,
    wait_for_end,
    wait_for_stage,
    wait_until,
)
from tests.slurm.workloads import recipe

pytestmark = pytest.mark.slurm


def nemo(*words: str) -> str:
    """Runs `nemo WORDS` in a process of its own; returns what it printed."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "nemo"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def stages_task(*commands: str) -> run.Partial:
    return run.Partial(
        recipe, stages=[{"name": f"s{at}", "argv": bash(text)} for at, text in enumerate(commands)]
    )


def quiet(title: str) -> run.Experiment:
    return run.Experiment(title, enable_goodbye_message=False, skip_status_at_exit=True)


def test_the_dry_run_prints_the_bytes_that_are_submitted(
    lab: Lab, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "x" * 300 + " [bold]no markup[/bold]"
    with quiet("dry") as experiment:
        experiment.add(stages_task("true"), executor=executor(env_vars={"LONG": long}), name="task")
        experiment.dryrun()
        printed = capsys.readouterr().out
        assert not list((home / "experiments" / "dry").iterdir()), "a dry run leaves nothing"
        experiment.run(detach=True)
    run_dir = Path(experiment.jobs[0].executor.job_dir)
    submission = read_submission(run_dir)
    assert submission is not None
    script = (run_dir / "sbatch.sh").read_text()
    assert script in printed
    assert lab.slurm("scontrol", "write", "batch_script", submission.job_id, "-").rstrip(
        "\n"
    ) == script.rstrip("\n")
    assert wait_for_end(submission).state is JobState.COMPLETED


def test_from_id_and_the_cli_see_and_cancel_a_job(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": bash("echo line one; echo line two; sleep 60")}],
        executor(nodes=2),
        title="seen",
    )
    wait_for_stage(submission, "train")
    experiment_id = Path(submission.run_dir).parent.name
    status = nemo("experiment", "status", experiment_id)
    assert "RUNNING" in status
    assert submission.job_id in status
    wait_until(
        lambda: list(read_logs(submission.run_dir)) == ["==> stage train, rank 0", "line one", "line two"]
    )
    logs = nemo("experiment", "logs", experiment_id)
    assert "line one" in logs
    assert "line two" in logs
    again = run.Experiment.from_id(experiment_id)
    assert type(again.jobs[0].executor) is SlurmExecutor
    nemo("experiment", "cancel", experiment_id)
    end = wait_for_end(submission)
    assert (end.state, end.stage) == (JobState.CANCELLED, "train")
    assert "CANCELLED" in nemo("experiment", "status", experiment_id)


def test_logs_are_tailed_while_the_job_runs(lab: Lab, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with quiet("tail") as experiment:
        task = stages_task("echo first stage, rank $SLURM_PROCID", "echo second stage; sleep 3; echo its end")
        experiment.add(task, executor=executor(nodes=2), name="task", tail_logs=True)
        experiment.run()
    out = capfd.readouterr().out
    for line in ("first stage, rank 0", "second stage", "its end"):
        assert line in out
    assert "rank 1" not in out
    assert experiment.jobs[0].state is AppState.SUCCEEDED


def test_tasks_run_at_once_and_after_one_another(lab: Lab, home: Path, tmp_path: Path) -> None:
    with quiet("dag") as experiment:
        for name in ("left", "right"):
            task = stages_task(f"date +%s.%N >{tmp_path}/{name}; sleep 4; date +%s.%N >>{tmp_path}/{name}")
            experiment.add(task, executor=executor(), name=name)
        experiment.add(
            stages_task(f"date +%s.%N >{tmp_path}/last"),
            executor=executor(),
            name="last",
            dependencies=["left", "right"],
        )
        experiment.run()
    times = {
        name: [float(word) for word in (tmp_path / name).read_text().split()]
        for name in ("left", "right", "last")
    }
    assert times["left"][0] < times["right"][1], "both at once"
    assert times["right"][0] < times["left"][1], "both at once"
    assert times["last"][0] > max(times["left"][1], times["right"][1])
    assert [job.state for job in experiment.jobs] == [AppState.SUCCEEDED] * 3


def test_a_failed_dependency_ends_what_waits_for_it(lab: Lab, home: Path) -> None:
    def depends() -> None:
        with quiet("depends") as experiment:
            experiment.add(stages_task("sleep 1; exit 4"), executor=executor(), name="first")
            experiment.add(stages_task("true"), executor=executor(), name="second")
            experiment.run(sequential=True)

    with pytest.raises(JobFailedError) as raised:
        depends()
    first, second = raised.value.outcomes
    assert (first.state, first.exit_code, first.stage) == (JobState.FAILED, 4, "s0")
    assert (second.state, second.stage) == (JobState.CANCELLED, None)
    assert second.text() == f"job {second.job_id} CANCELLED: a job that it depends on did not succeed"


def test_what_nemo_run_writes_as_yaml_reads_back(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": ["true"]}],
        executor(nodes=2, env_vars={"A": "it's $x"}, container_mounts=["/tmp:/data"], secrets=["HF_TOKEN"]),
    )
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    data = yaml.safe_load((Path(submission.run_dir) / "configs" / "task_executor.yaml").read_text())
    assert data["_target_"] == "cloudai_run.executors.slurm.SlurmExecutor"
    assert (data["nodes"], data["env_vars"], data["secrets"]) == (2, {"A": "it's $x"}, ["HF_TOKEN"])


def test_an_experiment_of_ours_is_launched_again(lab: Lab, home: Path) -> None:
    submission = launch_stages([{"name": "train", "argv": ["true"]}], executor(), title="again")
    wait_for_end(submission)
    first = Path(submission.run_dir)
    experiment = run.Experiment.from_id(first.parent.name).reset()
    with experiment:
        experiment.run(detach=True)
    second = Path(experiment.jobs[0].executor.job_dir)
    assert second.parent.parent == first.parent.parent
    assert second != first
    submission = read_submission(second)
    assert submission is not None
    assert wait_for_end(submission).state is JobState.COMPLETED


def test_a_tunnel_with_a_folder_of_its_own_still_submits(lab: Lab, home: Path, tmp_path: Path) -> None:
    on = executor(tunnel=run.LocalTunnel(job_dir=str(tmp_path / "elsewhere")))
    assert wait_for_end(launch(stages_task("true"), on)).state is JobState.COMPLETED


def test_a_home_with_a_space_and_no_git_repository(
    lab: Lab, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nemo_run.config import set_nemorun_home

    folder = tmp_path / "a home" / "100%"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    set_nemorun_home(str(folder))
    submission = launch(stages_task('echo "$PWD"'), executor(nodes=2), name="task")
    end = wait_for_end(submission)
    assert end.state is JobState.COMPLETED, f"{end.text()}\n{job_output(submission)}"
    assert list(read_logs(submission.run_dir)) == ["==> stage s0, rank 0", str(folder)]
    assert submission.run_dir.startswith(str(folder))


def test_a_packager_of_nemo_runs_ships_what_it_is_told(
    lab: Lab, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "hello.py").write_text("print('shipped')\n")
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115  # NeMo-Run's packagers read it
    packager = run.PatternPackager(include_pattern=str(code / "*.py"), relative_path=str(code))
    script = run.Script(path="hello.py", entrypoint="python")
    submission = launch(script, executor(packager=packager))
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    assert list(read_logs(submission.run_dir)) == ["==> stage task, rank 0", "shipped"]


def test_groups_are_refused_with_what_to_use_instead(home: Path) -> None:
    with pytest.raises(ExecutorError) as raised, quiet("group") as experiment:
        experiment.add(
            [run.Script(inline="true"), run.Script(inline="true")], executor=executor(), name="both"
        )
    assert str(raised.value) == (
        "SlurmExecutor takes no group of tasks: the first to end would end all\n"
        "  instead: one recipe with several stages, or one Experiment.add for each task"
        " (dependencies=[...] orders them)"
    )


def test_sbatch_that_refuses_a_job_says_why(lab: Lab, home: Path) -> None:
    with pytest.raises(ExecutorError) as raised:
        launch(stages_task("true"), executor(partition="no_such"))
    assert str(raised.value) == (
        "sbatch did not take the job\n"
        "  sbatch: error: invalid partition specified: no_such\n"
        "  sbatch: error: Batch job submission failed: Invalid partition name specified"
    )


def test_a_job_that_slurm_forgot_is_read_from_its_folder(lab: Lab, home: Path) -> None:
    submission = launch_stages([{"name": "train", "argv": bash("exit 7")}], executor())
    wait_for_end(submission)
    record = Path(submission.run_dir) / "submission.json"
    record.write_text(
        record.read_text().replace(f'"job_id": "{submission.job_id}"', '"job_id": "4000000000"')
    )
    end = outcome(submission.run_dir)
    assert (end.state, end.exit_code, end.stage, end.source) == (JobState.FAILED, 7, "train", "stages")
    stages = Path(submission.run_dir) / "stages.jsonl"
    stages.write_text(stages.read_text().splitlines()[0] + "\n")
    end = outcome(submission.run_dir)
    assert (end.state, end.stage, end.settled) == (JobState.UNKNOWN, "train", True)
    assert end.note == "Slurm does not know the job any more, and the stages file has no end of stage train"
    again = run.Experiment.from_id(Path(submission.run_dir).parent.name)
    add_to_index(home, replace(submission, job_id="4000000000"))
    handle = again.jobs[0].handle.replace(submission.job_id, "4000000000")
    assert again._runner.wait(handle, wait_interval=1) is None, "and nothing waits for it"
