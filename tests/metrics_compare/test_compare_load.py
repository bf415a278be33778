"""Runs, logs and report.json files as the sides of a comparison."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_load import load_run, load_sides
from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.report_json import report_json
from cloudai_run.metrics.throughput import RunShape
from tests.metrics_compare.runs import config_tree, nemo_log, record, step_times, write_run

TIMES = step_times(random.Random(1), 60, noise=0.002)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_run(
        tmp_path / "run1", TIMES, run_record=record(), config=config_tree(), nodes=("node7", "node8")
    )


def test_a_run_folder(run_folder: Path) -> None:
    run = load_run(str(run_folder))
    assert run.label == "llama3_8b_1733000000"
    assert not run.smoke
    assert run.status == "valid"
    assert run.stage == "train"
    assert run.framework == "nemo"
    assert run.facts.nodes == ("node7", "node8")
    assert run.facts.config == config_tree()
    assert run.shape.num_gpus == 8
    assert 40 <= len(run.step_time_s) < 60
    assert run.values["step_time_s"] == pytest.approx(median(run.step_time_s))
    tokens = 128 * 8192 / 8 / run.values["step_time_s"]
    assert run.values["tokens_per_s_per_gpu"] == pytest.approx(tokens)
    assert run.values["mfu"] == pytest.approx(tokens * 0.0514735e12 / 1979e12, rel=1e-4)


def test_its_report_json_is_the_same_run(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report_json(load_report([str(run_folder)]))), encoding="utf-8")
    from_report, from_logs = load_run(str(path)), load_run(str(run_folder))
    assert from_report.step_time_s == pytest.approx(from_logs.step_time_s)
    assert from_report.values == pytest.approx(from_logs.values)
    assert from_report.shape == from_logs.shape
    assert from_report.facts == from_logs.facts
    assert (from_report.label, from_report.smoke, from_report.status, from_report.stage) == (
        from_logs.label,
        from_logs.smoke,
        from_logs.status,
        from_logs.stage,
    )


def test_a_bare_log_with_its_shape_given_by_hand(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(nemo_log(TIMES), encoding="utf-8")
    run = load_run(str(log))
    assert run.shape.global_batch_size == 128
    assert "tokens_per_s" not in run.values
    assert run.missing["tokens_per_s"] == "seq_length is not known"
    run = load_run(str(log), shape=RunShape(seq_length=8192, num_gpus=8))
    assert run.values["tokens_per_s_per_gpu"] == pytest.approx(128 * 8192 / 8 / run.values["step_time_s"])


def test_window(run_folder: Path) -> None:
    assert len(load_run(str(run_folder), window="20:29").step_time_s) in (9, 10)


def test_sides_and_groups(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / f"run{n}", TIMES, run_record=record(run_id=f"id{n}"), config=config_tree())
        for n in range(3)
    ]
    sides = load_sides([f"{folders[0]},{folders[1]}", str(folders[2])])
    assert [(side.name, [run.label for run in side.runs]) for side in sides] == [
        ("A", ["id0", "id1"]),
        ("B", ["id2"]),
    ]


def test_a_file_whose_name_holds_a_comma_is_one_run(tmp_path: Path) -> None:
    log = tmp_path / "a,b.log"
    log.write_text(nemo_log(TIMES), encoding="utf-8")
    assert len(load_sides([str(log)])[0].runs) == 1


def test_an_nccl_log_has_its_average_bus_bandwidth(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
        "#   (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)\n"
        "17179869184 4294967296 float sum -1 62648 274.23 479.90 0 62650 274.22 479.89 0\n"
        "# Out of bounds values : 0 OK\n"
        "# Avg bus bandwidth    : 479.895\n",
        encoding="utf-8",
    )
    assert load_run(str(log)).values == {"busbw_gb_per_s": 479.895, "algbw_gb_per_s": 274.225}


def refusal(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_run(name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "r.json is not valid JSON: Expecting ',' delimiter: line 1 column 3 (char 2)"),
        ("{}", "r.json is no report of cloudai-run\n  write one: cloudai-run report RUN --json > r.json"),
        (
            '{"measured_stage": "train", "schema_version": 2}',
            "r.json has schema version 2, and this version reads 1",
        ),
        (
            '{"measured_stage": "train", "schema_version": 1, "stages": []}',
            "r.json has no stage 'train', which it names as the measured one",
        ),
        (
            '{"measured_stage": "t", "schema_version": 1, "stages": [{"name": "t", "metrics": {}}]}',
            "r.json has no numbers to compare\n  no metric has a value",
        ),
    ],
)
def test_bad_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(tmp_path, "r.json", text) == message


def test_a_window_needs_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_run("r.json", window="1:2")
    assert str(caught.value) == "--window needs the logs, and r.json is a report\n  name the run or its logs"


def test_empty_and_repeated_names() -> None:
    with pytest.raises(UserError) as caught:
        load_sides(["a,,b"])
    assert str(caught.value) == "'a,,b' has an empty name between commas\n  an example: run1,run2,run3"
    with pytest.raises(UserError) as caught:
        load_sides(["a,b,a"])
    assert str(caught.value) == "a is named twice on one side: a copy is no second run"


def test_more_sides_than_letters(run_folder: Path) -> None:
    with pytest.raises(UserError, match=r"^at most 26 sides can be compared, and there are 27$"):
        load_sides([str(run_folder)] * 27)
