"""Finding a run by its name, a prefix or `latest`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cloudai_run import run_folders
from cloudai_run.errors import UserError
from cloudai_run.record import RunRecord

RECORD = RunRecord(
    run_id="",
    name="llama3_8b",
    recipe="llama3_8b",
    framework="nemo",
    created_utc="",
    smoke=True,
    num_nodes=1,
    num_gpus_per_node=1,
)


def add_run(home: Path, run_id: str, created_utc: str) -> Path:
    folder = home / "experiments" / run_id.rpartition("_")[0] / run_id / "llama3_8b"
    folder.mkdir(parents=True)
    dataclasses.replace(RECORD, run_id=run_id, created_utc=created_utc).write(folder)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    add_run(tmp_path, "llama3_8b_20260102T000000Z", "2026-01-02T00:00:00Z")
    add_run(tmp_path, "llama3_8b_20260101T000000Z", "2026-01-01T00:00:00Z")
    add_run(tmp_path, "grok1_20260101T120000Z", "2026-01-01T12:00:00Z")
    return tmp_path


def test_runs_are_listed_oldest_first(home: Path):
    ids = [run.run_id for run in run_folders.all_runs(home)]
    assert ids == ["llama3_8b_20260101T000000Z", "grok1_20260101T120000Z", "llama3_8b_20260102T000000Z"]


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        ("latest", "llama3_8b_20260102T000000Z"),
        ("grok", "grok1_20260101T120000Z"),
        ("llama3_8b_20260101T000000Z", "llama3_8b_20260101T000000Z"),
    ],
)
def test_a_name_finds_its_run(home: Path, name: str, run_id: str):
    assert run_folders.find_run(name, home).run_id == run_id


def test_a_folder_is_a_name(home: Path):
    folder = add_run(home, "elsewhere_1", "2025-01-01T00:00:00Z")
    assert run_folders.find_run(str(folder), home).run_id == "elsewhere_1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "llama",
            "2 runs begin with 'llama'\n"
            "  the newest of them: llama3_8b_20260101T000000Z, llama3_8b_20260102T000000Z",
        ),
        (
            "grok1_20260101T120001Z",
            "there is no run 'grok1_20260101T120001Z'\n"
            "  did you mean grok1_20260101T120000Z?\n  all of them: cloudai-run runs",
        ),
        (
            "zebra",
            "there is no run 'zebra'\n"
            "  the newest: llama3_8b_20260102T000000Z\n  all of them: cloudai-run runs",
        ),
    ],
)
def test_a_name_that_finds_no_single_run(home: Path, name: str, message: str):
    with pytest.raises(UserError) as caught:
        run_folders.find_run(name, home)
    assert str(caught.value) == message


def test_no_runs_yet(tmp_path: Path):
    with pytest.raises(UserError) as caught:
        run_folders.find_run("latest", tmp_path)
    assert str(caught.value) == (
        f"there are no runs yet in {tmp_path}/experiments\n"
        "  start one: cloudai-run pretrain --factory llama3_8b"
    )
