"""Secrets, requeueing, and a job that Slurm ends."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cloudai_run.executors.plan import (
    Plan,
    Secrets,
)
from cloudai_run.executors.quoting import secret_file
from cloudai_run.executors.render import render_sbatch
from tests.executors_render.harness import (
    Outcome,
    install_fakes,
    plan_of,
    read_lines,
    run_plan,
    script_env,
    stage,
)


def secret_plan(folder: Path, values: str, *, mode: int = 0o600, **fields: Any) -> Plan:
    """Returns a plan with secrets whose file holds `values`."""
    path = folder / "secrets"
    path.write_text(values)
    path.chmod(mode)
    secrets = Secrets(names=("HF_TOKEN", "WANDB_API_KEY"), path=str(path))
    return plan_of(folder, stage("train"), secrets=secrets, **fields)


def test_secrets_reach_every_rank_and_stand_nowhere(tmp_path: Path) -> None:
    values = {"HF_TOKEN": "hf_secret\n'x' $y", "WANDB_API_KEY": "secret_w", "OTHER": "secret_o"}
    plan = secret_plan(tmp_path, secret_file(values))
    outcome = run_plan(plan, tmp_path)
    assert (outcome.code, outcome.stderr) == (0, "")
    for program in outcome.programs:
        assert {name: program["env"].get(name) for name in values} == values | {"OTHER": None}
    assert not (tmp_path / "secrets").exists()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "programs.jsonl"]
    assert [path.name for path in left if b"secret_" in path.read_bytes() and path.parent.name != "bin"] == []


def test_secrets_of_the_users_own_file_are_lines_and_the_file_stays(tmp_path: Path) -> None:
    plan = secret_plan(tmp_path, "# mine\nWANDB_API_KEY=a=b c\nHF_TOKEN=hf_1", mode=0o400)
    assert plan.secrets is not None
    plan = dataclasses.replace(plan, secrets=dataclasses.replace(plan.secrets, remove=False))
    outcome = run_plan(plan, tmp_path)
    assert {(p["env"]["HF_TOKEN"], p["env"]["WANDB_API_KEY"]) for p in outcome.programs} == {
        ("hf_1", "a=b c")
    }
    assert (tmp_path / "secrets").exists()


@pytest.mark.parametrize(
    ("values", "mode", "reason"),
    [
        ("HF_TOKEN=1\n", 0o600, "the secrets' file {path} has no WANDB_API_KEY"),
        ("HF_TOKEN=1\nWANDB_API_KEY=2\n", 0o644, "the secrets' file {path} is not there, or not of mode 600"),
    ],
)
def test_bad_secrets_file_ends_the_job_before_any_stage(
    tmp_path: Path, values: str, mode: int, reason: str
) -> None:
    outcome = run_plan(secret_plan(tmp_path, values, mode=mode), tmp_path)
    assert (outcome.code, outcome.sruns) == (1, [])
    assert outcome.reason("set-up") == reason.format(path=tmp_path / "secrets")


def test_requeue_is_turned_off_at_the_last_attempt(tmp_path: Path) -> None:
    off = "update jobid=4711 requeue=0"
    plan = plan_of(tmp_path, stage("train"), retries=2)
    script = render_sbatch(plan)
    assert "\n#SBATCH --requeue\n" in script
    calls = [run_plan(plan, tmp_path / str(attempt), attempt=attempt).scontrol[1:] for attempt in (1, 2)]
    assert calls == [[], [off]]


def test_failed_stage_is_never_requeued(tmp_path: Path) -> None:
    outcome = run_plan(plan_of(tmp_path, stage("train", "--exit-on", "0", "1"), retries=2), tmp_path)
    assert outcome.scontrol[1:] == ["update jobid=4711 requeue=0"]
    assert "\n#SBATCH --no-requeue\n" in render_sbatch(plan_of(tmp_path, stage("train")))


def terminated(plan: Plan, folder: Path) -> Outcome:
    """Runs a plan, and sends its script and its srun SIGTERM once the program runs, as Slurm ends a job."""
    install_fakes(folder / "bin")
    Path(plan.run_dir).mkdir()
    script = folder / "script.sh"
    script.write_text(render_sbatch(plan))
    process = subprocess.Popen(
        ["bash", str(script)],
        env=script_env(folder, nodes=2, attempt=None, extra={}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(read_lines(folder / "programs.jsonl")) < 4:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    for child in children:
        subprocess.run(["kill", child], check=True)
    stdout, stderr = process.communicate(timeout=30)
    return Outcome(
        code=process.returncode,
        stdout=stdout,
        stderr=stderr,
        run_dir=Path(plan.run_dir),
        sruns=read_lines(folder / "sruns.jsonl"),
        programs=read_lines(folder / "programs.jsonl"),
        scontrol=[],
    )


def test_job_that_is_told_to_end_records_the_end_and_keeps_what_another_attempt_needs(tmp_path: Path) -> None:
    plan = secret_plan(tmp_path, secret_file({"HF_TOKEN": "1", "WANDB_API_KEY": "2"}), retries=1)
    endless = stage("train", "--print", "step 1", "--sleep", "60")
    outcome = terminated(dataclasses.replace(plan, stages=(endless, stage("next"))), tmp_path)
    assert outcome.code == 137  # the stand-in kills its ranks, as a step that is forced to end
    assert outcome.ends() == {"set-up": 0, "train": 137}
    assert outcome.reason("train") == "the job was told to end (cancelled, out of time, or a node was lost)"
    assert "0: step 1" in outcome.log("train", "node-0-node1.log")
    assert (tmp_path / "secrets").exists()
