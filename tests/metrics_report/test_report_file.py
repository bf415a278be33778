"""report.json in the run folder: written when a run has ended, refreshed whole, never lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cloudai_run.cli.main import run
from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.report_file import save_report
from tests.metrics_report import runs_to_report


def saved(folder: Path) -> dict[str, object]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_a_run_that_has_ended_gets_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    folder = runs_to_report.nemo()
    assert run(["report", str(folder), "--json"]) == 0
    assert saved(folder) == json.loads(capsys.readouterr().out)


def test_an_old_report_is_refreshed() -> None:
    folder = runs_to_report.nemo()
    (folder / "report.json").write_text('{"schema_version": 0}', encoding="utf-8")
    assert run(["report", str(folder)]) == 0
    assert saved(folder)["schema_version"] == 1
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("words", [["--window", "20:30"], ["--gpus", "4"], ["--precision", "bf16"]])
def test_numbers_by_other_rules_are_not_kept(words: list[str]) -> None:
    folder = runs_to_report.nemo()
    assert run(["report", str(folder), *words]) == 0
    assert not (folder / "report.json").exists()


def test_a_run_whose_end_is_not_known_has_no_report_yet() -> None:
    folder = runs_to_report.incomplete()
    assert run(["report", str(folder)]) == 0
    assert not (folder / "report.json").exists()


def test_a_report_outlives_the_logs() -> None:
    folder = runs_to_report.nemo()
    assert run(["report", str(folder)]) == 0
    before = saved(folder)
    shutil.rmtree(folder / "logs")
    assert run(["report", str(folder)]) == 1
    assert saved(folder) == before


def test_a_report_without_numbers_does_not_replace_one_that_has_some() -> None:
    folder = runs_to_report.nemo()
    assert run(["report", str(folder)]) == 0
    before = saved(folder)
    shutil.rmtree(folder / "logs" / "train" / "attempt-0")
    (folder / "logs" / "train" / "rank-0.log").write_text("CUDA out of memory. Tried it. Error\n")
    assert run(["report", str(folder)]) == 1
    assert saved(folder) == before


def test_a_folder_that_cannot_be_written_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs_to_report.nemo()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    assert run(["report", str(folder)]) == 0
    assert capsys.readouterr().err == "run/report.json was not refreshed: Permission denied\n"
    assert not (folder / "report.json").exists()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_the_first_report_may_be_without_numbers() -> None:
    folder = runs_to_report.paxml_profile_failed()
    assert save_report(load_report([str(folder)]), folder) == folder / "report.json"
    assert saved(folder)["status"] == "invalid"
