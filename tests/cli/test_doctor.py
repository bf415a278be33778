"""`cloudai-run doctor` with stand-ins for Slurm's commands: each line, and the exit code."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cloudai_run import machine
from cloudai_run.cli.main import run


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return folder


def put(folder: Path, name: str, text: str) -> None:
    command = folder / name
    command.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def checks(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code = run(["doctor", *words, "--json"])
    payload = json.loads(capsys.readouterr().out)
    assert payload["ok"] is (code == 0)
    return code, {check["name"]: (check["status"], check["detail"]) for check in payload["checks"]}


def test_a_machine_without_slurm_cannot_launch_there(commands: Path, capsys: pytest.CaptureFixture[str]):
    code, found = checks(capsys, "slurm")
    assert code == 1
    assert found["sbatch"] == ("fail", "not on PATH")
    assert found["sacct"] == ("warn", "not on PATH")


def test_slurms_own_word_on_account_and_partition_is_shown(
    commands: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("srun", "squeue", "scancel"):
        put(commands, name, "exit 0")
    put(
        commands,
        "sbatch",
        'echo "sbatch: error: Invalid account or account/partition combination" >&2; exit 1',
    )
    put(commands, "sacct", 'echo "sacct: error: Slurm accounting storage is disabled" >&2; exit 1')
    code, found = checks(capsys, "slurm")
    assert code == 1
    assert found["sbatch --test-only"] == ("fail", "error: Invalid account or account/partition combination")
    assert found["accounting"] == ("warn", "error: Slurm accounting storage is disabled")


def test_the_fields_of_the_executor_reach_sbatch(
    commands: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "cloudai-run.toml").write_text(
        '[executors.night]\nkind = "slurm"\naccount = "bench"\nnodes = 4\ncontainer_image = "/no/such.sqsh"\n'
    )
    for name in ("sacct", "squeue", "scancel"):
        put(commands, name, "exit 0")
    put(commands, "srun", "echo --container-image")
    put(commands, "sbatch", 'echo "sbatch: $*"')
    code, found = checks(capsys, "night")
    assert code == 1
    assert found["sbatch --test-only"] == ("ok", "--test-only --account=bench --nodes=4 --wrap=true")
    assert found["container options"] == ("ok", "srun knows --container-image")
    assert found["container image"] == ("fail", "/no/such.sqsh: no such file")


@pytest.mark.usefixtures("commands")
def test_a_machine_with_gpus_and_nemo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(machine, "gpu_count", lambda: 8)
    monkeypatch.setattr(machine, "gpu_model", lambda: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(machine, "has_nemo", lambda: True)
    code, found = checks(capsys, "local")
    assert code == 0
    assert found["GPUs"] == ("ok", "8 x NVIDIA H100 80GB HBM3")
