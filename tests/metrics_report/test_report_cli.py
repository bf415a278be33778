"""`cloudai-run report` as a user meets it: output, files, exit codes and the texts of its errors."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloudai_run.cli.main import run
from tests.metrics_report import runs_to_report
from tests.metrics_report.folders import nemo_log, record, steps_of, write_folder
from tests.metrics_report.runs_to_report import FOLDER, NCCL_LOG

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `cloudai-run report` and returns exit code, standard output and standard error."""

    def call(*words: str) -> tuple[int, str, str]:
        code = run(["report", *words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def write_log(name: str = "run.log", text: str | None = None) -> str:
    Path(name).write_text(nemo_log(steps_of(60)) if text is None else text, encoding="utf-8")
    return name


@pytest.mark.parametrize(
    ("make", "code", "first"),
    [
        (runs_to_report.nemo, 0, "run llama3_8b_20261201T000000Z: valid"),
        (runs_to_report.incomplete, 0, "run llama3_8b_20261201T000000Z: incomplete"),
        (runs_to_report.nan, 1, "run llama3_8b_20261201T000000Z: invalid"),
        (runs_to_report.failed, 1, "run llama3_8b_20261201T000000Z: invalid"),
        (runs_to_report.smoke, 0, "CPU smoke run: not a benchmark"),
    ],
)
def test_exit_codes(report: Command, make: Callable[[], Path], code: int, first: str) -> None:
    found, out, err = report(str(make()))
    assert (found, out.splitlines()[0], err) == (code, first, "")


def test_no_usable_steps_is_a_failure_that_says_why(report: Command) -> None:
    folder = write_folder(FOLDER, record(), {"train/rank-0.log": nemo_log([45.0], ended=False, max_steps=60)})
    code, _, err = report(str(folder))
    assert code == 1
    assert err == (
        "error: run llama3_8b_20261201T000000Z has no usable steps: no step is left of 1: "
        "the run was too short, or name the steps with --window\n"
    )


def test_the_measured_stage_did_not_start(report: Command) -> None:
    code, out, err = report(str(runs_to_report.paxml_profile_failed()))
    assert code == 1
    assert "stage profile: invalid\n" in out
    assert err == (
        "error: run grok1_20261201T000000Z has no usable steps: "
        "stage perf, which is the measured one, did not start\n"
    )


def test_a_run_that_left_nothing_is_a_failure(report: Command) -> None:
    folder = write_folder(FOLDER, record(), {"train/rank-0.log": "hello\n"}, exit_codes={"train": 7})
    assert report(str(folder)) == (
        1,
        "",
        "error: run llama3_8b_20261201T000000Z has no steps to report\n"
        "  job FAILED in stage train with exit code 7\n",
    )


MISTAKES: Sequence[tuple[list[str], str]] = [
    (
        ["run.log", "other.log"],
        "error: other.log: no such file\n  several names are taken as the log files of one run\n",
    ),
    (
        ["run.log", "--window", "50:10"],
        "error: --window 50:10: no step is at least 50 and below 10\n",
    ),
    (
        ["run.log", "--window", "now"],
        "error: --window now: not understood\n  write FIRST:LAST, for instance 10:50 for steps 10 to 49\n",
    ),
    (
        ["run.log", "--model", "llama3_8"],
        "error: the shape of the model 'llama3_8' is not known\n  did you mean llama3_8b",
    ),
    (
        ["run.log", "--push", "tensorboard"],
        "error: --push tensorboard: not understood\n  write tensorboard:DIR, mlflow:URI or wandb:PROJECT\n",
    ),
    (
        ["run.log", "--push", "neptune:x"],
        "error: --push neptune:x: not understood\n  write tensorboard:DIR, mlflow:URI or wandb:PROJECT\n",
    ),
    (["run.log", "--gpus", "0"], "error: Invalid value for '--gpus': "),
    (["empty.log"], "error: no step line of a known format in empty.log (0 bytes)\n"),
    (["run.log", "--csv", "no/such/folder.csv"], "error: cannot write no/such/folder.csv: No such file"),
    (["nccl.log", "--png", "x.png"], "error: there is no step time of nccl.log to draw\n"),
    (["latest"], "error: there are no runs yet in "),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistakes(report: Command, words: list[str], message: str) -> None:
    write_log()
    write_log("empty.log", "")
    write_log("nccl.log", NCCL_LOG)
    code, _, err = report(*words)
    assert code == 2
    assert err.startswith(message)
    assert len(err.splitlines()) <= 6


def test_a_foreign_log_with_its_shape_given(report: Command) -> None:
    shape = ["--model", "llama3_8b", "--gpus", "8", "--gpu", "H100", "--precision", "fp8"]
    code, out, _ = report(write_log(), *shape, "--seq-length", "8192", "--json")
    metrics = json.loads(out)["metrics"]
    assert code == 0
    assert metrics["mfu"]["value"] == pytest.approx(
        128 * 8192 / 8 / 10.005 * 0.0514735e12 / 1979e12, rel=1e-4
    )
    assert metrics["mfu"]["convention"] == "causal"
    assert metrics["mfu_non_causal"]["convention"] == "non_causal"


def test_a_foreign_log_says_what_can_be_given(report: Command) -> None:
    _, out, _ = report(write_log())
    assert out.splitlines()[-1] == (
        "  note: what the log does not say can be given: --model, --gpus, --gpu, --precision, --seq-length"
    )
    _, out, _ = report(
        "run.log", "--gpu", "GTX 1080", "--precision", "fp8", "--model", "llama3_8b", "--gpus", "8"
    )
    assert out.splitlines()[-1] == "  note: what the log does not say can be given: --seq-length"


def test_an_unknown_gpu_has_no_mfu_and_a_word_why(report: Command) -> None:
    shape = ["--model", "llama3_8b", "--gpus", "8", "--gpu", "GTX 1080", "--precision", "fp8"]
    _, out, _ = report(write_log(), *shape, "--seq-length", "8192")
    line = next(line for line in out.splitlines() if line.startswith("  note: no mfu: "))
    assert "GTX 1080" in line
    assert "tflops_per_gpu" in out


@pytest.mark.parametrize(
    ("tflops", "words"),
    [
        (675.0, "note: the framework's own 675 TFLOP/s/GPU agrees with ours"),
        (500.0, "note: the framework says 500 TFLOP/s/GPU, -25.8% against ours (674.3, causal)"),
        (
            759.0,
            "note: the framework says 759 TFLOP/s/GPU, +12.6% against ours (674.3, causal); "
            "it fits the non_causal convention (758.7)",
        ),
    ],
)
def test_the_frameworks_own_tflops(report: Command, tflops: float, words: str) -> None:
    text = nemo_log(steps_of(60)).replace("| consumed", f"| TFLOPS_per_GPU: {tflops} | consumed")
    shape = [
        "--model",
        "llama3_8b",
        "--gpus",
        "8",
        "--gpu",
        "H100",
        "--precision",
        "fp8",
        "--seq-length",
        "8192",
    ]
    _, out, _ = report(write_log(text=text), *shape)
    assert words in out
    row = next(line for line in out.splitlines() if "framework_tflops_per_gpu" in line)
    assert row.split() == ["framework_tflops_per_gpu", f"{tflops:.1f}", "TFLOP/s/GPU", "50"]


def test_numbers_that_cannot_be_are_said(report: Command) -> None:
    shape = [
        "--model",
        "llama3_8b",
        "--gpus",
        "1",
        "--gpu",
        "H100",
        "--precision",
        "fp8",
        "--seq-length",
        "8192",
    ]
    _, out, _ = report(write_log(), *shape)
    assert "note: mfu is over 100 %: batch, sequence, GPUs, precision or model are not this log's" in out


def test_a_window_by_hand(report: Command) -> None:
    _, out, _ = report(write_log(), "--window", "20:30", "--json")
    payload = json.loads(out)
    window = payload["stages"][0]["window"]
    assert window == {
        "rule": "--window 20:30",
        "first_step": 20,
        "last_step": 29,
        "count": 10,
        "excluded": 50,
        "note": None,
    }
    assert payload["metrics"]["step_time_s"]["count"] == 10


def test_several_files_are_the_ranks_of_one_run(report: Command) -> None:
    for rank in range(3):
        write_log(f"rank{rank}.log", nemo_log([seconds * (1 + rank / 1000) for seconds in steps_of(30)]))
    code, out, _ = report("rank0.log", "rank1.log", "rank2.log", "--json")
    payload = json.loads(out)
    assert code == 0
    assert payload["run"] == "rank0.log and 2 more"
    assert [rank["rank"] for rank in payload["stages"][0]["ranks"]["ranks"]] == [2, 1, 0]
    assert len(payload["stages"][0]["steps"]) == 30


def test_a_folder_of_foreign_logs(report: Command) -> None:
    Path("logs").mkdir()
    write_log("logs/train.log")
    code, out, _ = report("logs")
    assert (code, out.splitlines()[0]) == (0, "run logs: valid")


def test_standard_input(report: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(nemo_log(steps_of(60)).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = report("-")
    assert code == 0
    assert out.startswith("run <stdin>: valid\n")
    assert "60 in the log, 50 measured (10 to 59)" in out


def test_every_output_at_once(report: Command) -> None:
    folder = runs_to_report.nemo()
    code, out, err = report(
        str(folder), "--markdown", "r.md", "--csv", "r.csv", "--html", "r.html", "--png", "r.png"
    )
    assert code == 0
    assert out.startswith("run llama3_8b_20261201T000000Z: valid\n")
    assert err == "wrote r.md\nwrote r.csv\nwrote r.html\nwrote r.png\n"
    assert Path("r.md").read_text(encoding="utf-8").startswith("### llama3_8b_20261201T000000Z: valid\n")
    assert len(Path("r.csv").read_text(encoding="utf-8").splitlines()) == 61
    assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert Path("r.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_without_matplotlib_only_the_plots_are_missing(
    report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = report(write_log(), "--png", "r.png")
    assert code == 2
    assert out.startswith("run run.log: valid\n")
    assert err == "error: plots need matplotlib\n  pip install 'cloudai-run[plot]'\n"


def test_json_is_strict(report: Command) -> None:
    _, out, _ = report(str(runs_to_report.nan()), "--json")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    payload = json.loads(out, parse_constant=refuse)
    assert payload["status"] == "invalid"
    assert payload["metrics"]["loss"]["value"] == "nan"
    assert payload["stages"][0]["steps"][-1]["loss"] == "nan"
