"""The main job on the real NeMo: trained on this CPU, reported, compared, and found again from another shell."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.launching import ROOT, Shell

pytestmark = pytest.mark.nemo


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder whose name holds a space and that is no git repository, with two runs in it."""
    shell = Shell.at(tmp_path_factory.mktemp("main job") / "empty folder")
    words = ("--factory", "llama3_8b", "--smoke", "trainer.max_steps=5")
    first = shell.cloudai_run("pretrain", *words)
    assert first.returncode == 0, first.stderr
    assert first.stderr.startswith("CPU smoke run: not a benchmark\n")
    assert first.stdout.startswith("CPU smoke run: not a benchmark\n")
    second = shell.cloudai_run(
        "pretrain", *words, "optim.config.lr=0.01", "run.executor=local", "run.executor.ntasks_per_node=2",
        "--name", "two_ranks", "--json",
    )  # fmt: skip
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["num_gpus"] == 2
    return shell


def test_the_report_has_the_steps(shell: Shell):
    answer = shell.cloudai_run("report", "llama3_8b", "--json")
    report = json.loads(answer.stdout)
    assert answer.returncode == 0
    assert report["smoke"] is True
    (stage,) = report["stages"]
    assert [step["step"] for step in stage["steps"]] == [0, 1, 2, 3, 4]
    assert report["metrics"]["step_time_s"]["value"] > 0
    assert report["metrics"]["step_time_s"]["count"] == 4


def test_the_run_folder_holds_what_the_documents_say(shell: Shell):
    folder = shell.run_folder("llama3_8b")
    expected = [
        "run.json",
        "config.yaml",
        "overrides.txt",
        "local.sh",
        "submission.json",
        "stages.jsonl",
        "report.json",
    ]
    assert [name for name in expected if not (folder / name).is_file()] == []
    assert (folder / "logs/train/attempt-0/rank-0.log").is_file()
    assert (folder / "overrides.txt").read_text() == "trainer.max_steps=5\n"
    record = json.loads((folder / "run.json").read_text())
    assert record["recipe"] == "llama3_8b"
    assert record["schema_versions"]["nemo_toolkit"] == "2.7.3"
    assert record["model"]["num_layers"] == 2


def test_later_shells_see_the_run(shell: Shell):
    status = shell.cloudai_run("status", "two_ranks", "--json")
    assert json.loads(status.stdout)["state"] == "COMPLETED"
    logs = shell.cloudai_run("logs", "llama3_8b")
    assert "`Trainer.fit` stopped: `max_steps=5` reached." in logs.stdout
    listed = shell.cloudai_run("runs")
    assert len(listed.stdout.splitlines()) == 2
    assert all(line.endswith("CPU smoke run") for line in listed.stdout.splitlines())


def test_compare_names_the_override_and_a_gate_refuses_smoke_runs(shell: Shell):
    answer = shell.cloudai_run("compare", "llama3_8b", "two_ranks")
    assert answer.returncode == 0, answer.stderr
    assert "optim.config.lr" in answer.stdout
    gate = shell.cloudai_run("compare", "llama3_8b", "two_ranks", "--fail-if", "step_time_s>+3%")
    assert gate.returncode == 2
    assert "smoke" in gate.stderr


def test_the_python_of_the_readme_works_as_printed(tmp_path: Path):
    shell = Shell.at(tmp_path)
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "compose.py").write_text(block.group(1), encoding="utf-8")
    answer = shell.run(sys.executable, "compose.py")
    assert answer.returncode == 0, answer.stderr
    for name in ("dense", "experts"):
        (log,) = tmp_path.glob(f"runs/experiments/two-recipes/*/{name}/logs/train/attempt-0/rank-0.log")
        assert "`max_steps=3` reached" in log.read_text(encoding="utf-8")


def test_nemos_own_command_stays_nemos_and_ours_stands_beside_it(tmp_path: Path):
    shell = Shell.at(tmp_path)
    nemo = str(Path(sys.executable).with_name("nemo"))
    theirs = shell.run(
        nemo, "llm", "pretrain", "--yes", "--factory", "llama3_8b", "trainer.max_steps=5", "--dryrun"
    )
    assert theirs.returncode == 0, theirs.stderr
    assert "cloudai" not in theirs.stdout
    ours = shell.run(
        nemo,
        "cloudai",
        "pretrain",
        "--factory",
        "llama3_8b",
        "trainer.max_steps=5",
        "run.executor=local",
        "--dryrun",
    )
    assert ours.returncode == 0, ours.stderr
    assert "nemo llm pretrain --yes --factory llama3_8b trainer.max_steps=5" in ours.stdout
    wrong = shell.run(nemo, "cloudai", "pretrain", "--factory", "llama3_8b", "trainer.max_step=5")
    assert wrong.returncode == 2
    assert "did you mean trainer.max_steps?" in wrong.stderr
