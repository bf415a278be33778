"""Tests of reports run in an empty folder, so that paths in their output are short and the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "nemo_run_home"))
