"""A full-size local launch with a stand-in for the `nemo` command: what it is given, and how its failure is told."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudai_run import machine
from cloudai_run.cli.main import run

NEMO = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done >"$NEMO_ARGUMENTS"
printf '%s\\n' "$NIGHT" >>"$NEMO_ARGUMENTS"
step='Training epoch 0, iteration %s/1 | global_step: %s | reduced_train_loss: %s | train_step_timing in s: %s'
printf "$step\\n" 0 0 5.5 2.0 1 1 5.4 1.0
echo 'no more memory' >&2
exit "$NEMO_EXIT_CODE"
"""


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the stand-in of `nemo` writes its arguments to."""
    command = tmp_path / "bin" / "nemo"
    command.parent.mkdir()
    command.write_text(NEMO, encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(command.parent), prepend=":")
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("NEMO_ARGUMENTS", str(tmp_path / "arguments"))
    monkeypatch.setattr(machine, "gpu_count", lambda: 1)
    from nemo_run.config import get_nemorun_home, set_nemorun_home

    before = get_nemorun_home()
    set_nemorun_home(str(tmp_path / "runs"))
    yield tmp_path / "arguments"
    set_nemorun_home(before)


WORDS = ["pretrain", "-f", "llama3_8b", "trainer.max_steps=2", "trainer.strategy.context_parallel_size=1",
         "run.executor=local", "run.env.NIGHT=a b 'c' $HOME"]  # fmt: skip


def test_a_run_that_ends_well(
    arguments: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("NEMO_EXIT_CODE", "0")
    assert run([*WORDS, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["smoke"] is False
    assert report["num_gpus"] == 1
    assert report["metrics"]["step_time_s"]["value"] == 1.0
    assert arguments.read_text().splitlines() == [
        "llm", "pretrain", "--yes", "--factory", "llama3_8b",
        "trainer.strategy.context_parallel_size=1", "trainer.max_steps=2",
        "trainer.num_nodes=1", "trainer.devices=1", "a b 'c' $HOME",
    ]  # fmt: skip


@pytest.mark.usefixtures("arguments")
def test_a_run_that_fails_names_stage_exit_code_and_log_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("NEMO_EXIT_CODE", "9")
    assert run(WORDS) == 1
    captured = capsys.readouterr()
    last = captured.err[captured.err.index("error: ") :].splitlines()
    assert last[0].endswith("FAILED in stage train with exit code 9")
    assert last[1] == "  last line of its log: no more memory"
    assert last[2].startswith("  log: cloudai-run logs llama3_8b_")
    assert "step_time_s" in captured.out
    assert run(["status", "latest"]) == 1
