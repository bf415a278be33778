"""Reports sent to TensorBoard, MLflow and Weights & Biases by their real libraries, without a network."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import pytest

from cloudai_run.cli.main import run
from cloudai_run.errors import UserError
from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.push import Target, parse_target, push, series, summary, tags
from cloudai_run.metrics.report import Report
from tests.metrics_report import runs_to_report
from tests.metrics_report.folders import RUN_ID


class Missing:
    """Lets a package be as if it were not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def nemo() -> Report:
    return load_report([str(runs_to_report.nemo())])


def test_targets() -> None:
    assert parse_target("tensorboard:runs") == Target("tensorboard", "runs")
    assert parse_target("mlflow:http://host:5000") == Target("mlflow", "http://host:5000")
    for text in ("tensorboard:", "wandb", ":x", "tensorboard=x", "other:x"):
        with pytest.raises(UserError, match="not understood"):
            parse_target(text)


def test_the_series_hold_every_step(nemo: Report) -> None:
    points = list(series(nemo))
    times = [point.value for point in points if point.name == "train/step_time_s"]
    rates = [point.value for point in points if point.name == "train/tokens_per_s_per_gpu"]
    assert len(times) == len(rates) == 60
    assert [rate * seconds for rate, seconds in zip(rates, times, strict=True)] == pytest.approx(
        [128 * 8192 / 8] * 60
    )
    assert summary(nemo)["summary/step_time_s"] == pytest.approx(median(times[10:]))


def test_the_tags_say_whether_it_is_a_benchmark(nemo: Report) -> None:
    assert tags(nemo)["cloudai_run.smoke"] == "false"
    assert tags(nemo)["cloudai_run.overrides"] == "trainer.max_steps=60"


def test_nothing_is_sent_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    assert run(["report", str(runs_to_report.nemo())]) == 0


@pytest.mark.parametrize(
    ("target", "module"),
    [("tensorboard:tb", "tensorboard"), ("mlflow:file:ml", "mlflow"), ("wandb:proj", "wandb")],
)
def test_a_missing_extra_names_its_command(
    target: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(module), *sys.meta_path])
    assert run(["report", str(runs_to_report.nemo()), "--push", target]) == 2
    assert capsys.readouterr().err == (
        f"error: --push {module} needs the package {module}\n  pip install 'cloudai-run[{module}]'\n"
    )


def test_tensorboard(capsys: pytest.CaptureFixture[str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run(["report", str(runs_to_report.smoke()), "--push", "tensorboard:runs"]) == 0
    assert capsys.readouterr().err == "TensorBoard: tensorboard --logdir runs\n"
    events = EventAccumulator(f"runs/{RUN_ID} (smoke)").Reload()
    assert {"train/step_time_s", "train/loss", "summary/step_time_s"} <= set(events.Tags()["tensors"])
    assert "summary/mfu" not in events.Tags()["tensors"]
    times = [
        (event.step, float(event.tensor_proto.float_val[0])) for event in events.Tensors("train/step_time_s")
    ]
    assert [step for step, _ in times] == [0, 1, 2, 3, 4]
    assert times[0][1] == pytest.approx(0.135)
    words = events.Tensors("run/text_summary" if "run/text_summary" in events.Tags()["tensors"] else "run")
    text = words[0].tensor_proto.string_val[0].decode()
    assert text.startswith("**CPU smoke run: not a benchmark**")
    assert "cloudai_run.smoke = true" in text
    assert (
        events.SummaryMetadata("train/step_time_s").summary_description == "s, CPU smoke run: not a benchmark"
    )


def test_mlflow(nemo: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    where = Path("ml").absolute().as_uri()
    said = push(nemo, Target("mlflow", where))
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=where)
    experiment = client.get_experiment_by_name("llama3_8b")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert said == f"MLflow: run {found.info.run_id} of experiment llama3_8b at {where}"
    assert (found.info.run_name, found.info.status) == (RUN_ID, "FINISHED")
    assert found.data.tags["cloudai_run.smoke"] == "false"
    assert found.data.metrics["summary/mfu"] == pytest.approx(nemo.main.values["mfu"])
    history = client.get_metric_history(found.info.run_id, "train/step_time_s")
    assert sorted(metric.step for metric in history) == list(range(60))


def test_mlflow_tells_an_invalid_run_and_takes_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    where = Path("ml").absolute().as_uri()
    push(load_report([str(runs_to_report.nan())]), Target("mlflow", where))
    client = MlflowClient(tracking_uri=where)
    experiment = client.get_experiment_by_name("llama3_8b")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FAILED"
    assert found.data.tags["cloudai_run.reasons"] == "loss is nan from step 21 (39 steps)"


def test_mlflow_that_refuses_is_one_message() -> None:
    folder = runs_to_report.smoke()
    with pytest.raises(UserError, match=r"^mlflow:nosuch://x: "):
        push(load_report([str(folder)]), Target("mlflow", "nosuch://x"))


def test_wandb_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(Path.cwd()))
    said = push(load_report([str(runs_to_report.smoke())]), Target("wandb", "bench"))
    (folder,) = Path("wandb").glob("offline-run-*")
    assert said == f"Weights & Biases: {folder.absolute()}"
    (file,) = folder.glob("run-*.wandb")
    content = file.read_bytes()
    for text in (f"{RUN_ID} (smoke)", "bench", "train/step_time_s", "cloudai_run.smoke", "summary/loss"):
        assert json.dumps(text)[1:-1].encode() in content, text
    assert b"summary/mfu" not in content


def test_wandb_without_an_account_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_API_KEY", "no-key")
    monkeypatch.setenv("WANDB_DIR", str(Path.cwd()))
    with pytest.raises(UserError) as caught:
        push(load_report([str(runs_to_report.smoke())]), Target("wandb", "bench"))
    assert str(caught.value).startswith("wandb:bench: ")
    assert str(caught.value).endswith("\n  without an account: WANDB_MODE=offline")
