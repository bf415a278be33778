"""Sends a report to TensorBoard, MLflow or Weights & Biases through their own libraries; only on request."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import SMOKE_LINE, Report

# Each is the name of the target, of the package that it needs, and of this project's extra with it.
KINDS = ("tensorboard", "mlflow", "wandb")
_FORM = "tensorboard:DIR, mlflow:URI or wandb:PROJECT"
_STEP_FIELDS = ("step_time_s", "loss", "val_loss", "grad_norm", "learning_rate")
_MLFLOW_BATCH = 1000
_MLFLOW_LONGEST = 160
# MLflow 3 refuses a folder as its store unless this is set, and says so.
_MLFLOW_FOLDER = "MLFLOW_ALLOW_FILE_STORE=true"


@dataclass(frozen=True)
class Target:
    """Where a report is sent: `kind` is one of the three, `where` a folder, a tracking URI or a project."""

    kind: str
    where: str


@dataclass(frozen=True)
class Point:
    """One value of a series."""

    name: str
    step: int
    value: float


def parse_target(text: str) -> Target:
    """Returns what `--push` names.

    Raises:
        UserError: not of that form.
    """
    kind, colon, where = text.partition(":")
    if kind not in KINDS or not colon or not where:
        raise UserError(f"--push {text}: not understood\n  write {_FORM}")
    return Target(kind, where)


def push(report: Report, target: Target) -> str:
    """Sends a report and returns one line that says where it is.

    Raises:
        UserError: the extra is not installed, or the library refused; says its words.
    """
    send = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}[target.kind]
    try:
        return send(report, target.where)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != target.kind:
            raise
        needs = f"--push {target.kind} needs the package {target.kind}"
        raise UserError(f"{needs}\n  pip install 'cloudai-run[{target.kind}]'") from error


def series(report: Report) -> Iterator[Point]:
    """Yields each step's values, stage by stage; tokens/s follow the step's own time."""
    for stage in report.stages:
        rate = stage.throughput.tokens_per_s_per_gpu if stage.throughput else None
        for step in stage.window.all_steps:
            for name in _STEP_FIELDS:
                value = getattr(step, name)
                if value is not None:
                    yield Point(f"{stage.name}/{name}", step.step, value)
            if rate and stage.step_time and step.step_time_s:
                tokens = rate * stage.step_time.median / step.step_time_s
                yield Point(f"{stage.name}/tokens_per_s_per_gpu", step.step, tokens)


def summary(report: Report) -> dict[str, float]:
    """Returns the run's metrics as report.json has them."""
    return {f"summary/{name}": value for name, value in report.main.values.items()}


def tags(report: Report) -> dict[str, str]:
    """Returns what the run is, above all whether it is a benchmark at all."""
    record = report.facts.record
    shape = report.shape
    words = {
        "smoke": "true" if report.smoke else "false",
        "status": report.status,
        "reasons": "; ".join(report.reasons) or None,
        "recipe": record.get("recipe"),
        "framework": record.get("framework"),
        "num_nodes": record.get("num_nodes"),
        "num_gpus": shape.num_gpus,
        "gpu_model": shape.gpu_model,
        "precision": shape.precision,
        "global_batch_size": shape.global_batch_size,
        "seq_length": shape.seq_length,
        "overrides": " ".join(map(str, _list(record.get("overrides")))) or None,
    }
    return {f"cloudai_run.{name}": str(value) for name, value in words.items() if value is not None}


def run_name(report: Report) -> str:
    """Returns the run's name there; a smoke run's says what it is."""
    return f"{report.label} (smoke)" if report.smoke else report.label


def _list(value: object) -> list[object] | tuple[object, ...]:
    return value if isinstance(value, (list, tuple)) else []


def _tensorboard(report: Report, where: str) -> str:
    # protobuf makes its classes at import, where a type checker does not see them.
    from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary import Writer
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = str(Path(where) / run_name(report).replace("/", "_"))
    writer = Writer(folder)
    for point in series(report):
        name = point.name.rpartition("/")[2]
        writer.add_scalar(point.name, point.value, point.step, description=_describe(name, report))
    for name, value in summary(report).items():
        writer.add_scalar(name, value, 0, description=_describe(name.removeprefix("summary/"), report))
    writer.close()
    facts = "\n".join(f"    {name} = {value}" for name, value in tags(report).items())
    heading = f"**{SMOKE_LINE}**\n\n" if report.smoke else ""
    events = EventFileWriter(folder)
    summary_text = text_pb("run", heading + facts)
    events.add_event(
        Event(summary=summary_text, step=0, wall_time=time.time())  # pyright: ignore[reportCallIssue]
    )
    events.close()
    return f"TensorBoard: tensorboard --logdir {where}"


def _describe(name: str, report: Report) -> str:
    metric = METRICS.get(name)
    unit = [report.unit(metric), metric.convention or ""] if metric else []
    words = [*unit, SMOKE_LINE if report.smoke else ""]
    return ", ".join(word for word in words if word)


def _mlflow(report: Report, where: str) -> str:
    # Sent on request of the user are these numbers, and nothing about the user.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient
    from mlflow.entities import Metric
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(tracking_uri=where)
        name = str(report.facts.record.get("recipe") or "cloudai-run")
        experiment = client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(name)
        run = client.create_run(experiment_id, run_name=run_name(report), tags=tags(report))
        now = run.info.start_time
        points = [*series(report), *(Point(key, 0, value) for key, value in summary(report).items())]
        metrics = [Metric(point.name, point.value, now, point.step) for point in points]
        for at in range(0, len(metrics), _MLFLOW_BATCH):
            client.log_batch(run.info.run_id, metrics=metrics[at : at + _MLFLOW_BATCH])
        client.set_terminated(run.info.run_id, "FINISHED" if report.status == "valid" else "FAILED")
    except MlflowException as error:
        text = str(error)
        hint = f"\n  to write into a folder all the same: {_MLFLOW_FOLDER}" if _MLFLOW_FOLDER in text else ""
        raise UserError(f"mlflow:{where}: {text.splitlines()[0][:_MLFLOW_LONGEST]}{hint}") from error
    return f"MLflow: run {run.info.run_id} of experiment {name} at {where}"


def _wandb(report: Report, where: str) -> str:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb
    from wandb.errors import Error

    known = tags(report)
    labels = [report.status, *(["smoke"] if report.smoke else [])]
    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    try:
        run = wandb.init(project=where, name=run_name(report), config=known, tags=labels, settings=settings)
        steps: dict[tuple[str, int], dict[str, float]] = {}
        for point in series(report):
            stage = point.name.partition("/")[0]
            steps.setdefault((stage, point.step), {})[point.name] = point.value
        for stage in report.stages:
            run.define_metric(f"{stage.name}/step")
            run.define_metric(f"{stage.name}/*", step_metric=f"{stage.name}/step")
        for (stage, step), values in steps.items():
            run.log({f"{stage}/step": step, **values})
        run.summary.update(summary(report))
        folder = run.dir
        run.finish()
        # Only then is an offline run's file whole: it is written by a process of its own.
        wandb.teardown()
    except Error as error:
        raise UserError(
            f"wandb:{where}: {str(error).splitlines()[0]}\n  without an account: WANDB_MODE=offline"
        ) from error
    offline = Path(folder).parent
    return f"Weights & Biases: {offline if offline.name.startswith('offline') else run.url}"
