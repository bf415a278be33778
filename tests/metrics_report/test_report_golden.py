"""Each kind of run, whole: terminal, Markdown, CSV and JSON, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.report_json import report_json
from cloudai_run.metrics.report_tables import CSV_COLUMNS, report_csv, report_markdown
from cloudai_run.metrics.report_text import report_text
from tests.golden import assert_golden
from tests.metrics_report.runs_to_report import NCCL_LOG, RUNS

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", RUNS)
def test_the_terminals_text(name: str) -> None:
    assert_golden(GOLDEN / f"{name}.txt", report_text(load_report([str(RUNS[name]())])))


@pytest.mark.parametrize("name", ["nemo", "paxml", "nan", "smoke"])
def test_markdown(name: str) -> None:
    assert_golden(GOLDEN / f"{name}.md", report_markdown(load_report([str(RUNS[name]())])))


@pytest.mark.parametrize("name", ["paxml", "smoke"])
def test_csv(name: str) -> None:
    text = report_csv(load_report([str(RUNS[name]())]))
    assert text.splitlines()[0] == ",".join(CSV_COLUMNS)
    assert_golden(GOLDEN / f"{name}.csv", text)


@pytest.mark.parametrize("name", ["paxml", "nan", "smoke"])
def test_json(name: str) -> None:
    payload = json.dumps(report_json(load_report([str(RUNS[name]())])), indent=1, allow_nan=False)
    assert_golden(GOLDEN / f"{name}.json", f"{payload}\n")


def test_an_nccl_log() -> None:
    Path("nccl.log").write_text(NCCL_LOG, encoding="utf-8")
    report = load_report(["nccl.log"])
    assert_golden(GOLDEN / "nccl.txt", report_text(report))
    assert_golden(GOLDEN / "nccl.md", report_markdown(report))
