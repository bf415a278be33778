"""From what a user names in `compare` (runs, logs, report.json files) to the sides of a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.flops import ModelShape
from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.run_data import RunData, Side, make_sides
from cloudai_run.metrics.samples import Status
from cloudai_run.metrics.throughput import RunShape

REPORT_FILE = "report.json"
_SCHEMA_VERSION = 1
_STATUSES: Mapping[object, Status] = {"valid": "valid", "invalid": "invalid", "incomplete": "incomplete"}


def load_sides(
    names: Sequence[str], *, window: str | None = None, shape: RunShape | None = None
) -> tuple[Side, ...]:
    """Returns one side for each name; commas join the runs of one side (`A1,A2,A3`).

    A name with a comma that exists as a path is one run.

    Raises:
        UserError: A name stands for nothing, or one run is named twice on a side.
    """
    groups: list[list[RunData]] = []
    for name in names:
        parts = [name] if Path(name).exists() else name.split(",")
        if any(not part for part in parts):
            raise UserError(f"{name!r} has an empty name between commas\n  an example: run1,run2,run3")
        repeated = sorted({part for part in parts if parts.count(part) > 1})
        if repeated:
            raise UserError(f"{repeated[0]} is named twice on one side: a copy is no second run")
        groups.append([load_run(part, window=window, shape=shape) for part in parts])
    return make_sides(groups)


def load_run(name: str, *, window: str | None = None, shape: RunShape | None = None) -> RunData:
    """Returns one run: a run's id, prefix, `latest` or folder, a log file, `-`, or a report.json file.

    Args:
        name: As on the command line.
        window: `FIRST:LAST` in place of the format's rule; a report.json has its window already.
        shape: What is given by hand for logs that do not say it.

    Raises:
        UserError: There is nothing of that name, or it holds no numbers.
    """
    path = Path(name)
    if path.suffix == ".json" and path.is_file():
        if window is not None:
            raise UserError(f"--window needs the logs, and {name} is a report\n  name the run or its logs")
        return run_from_report(_read_report(path), source=name)
    run = load_report([name], window=window, shape=shape).run_data()
    if not run.values:
        why = run.missing.get("step_time_s") or "; ".join(run.reasons) or "no step in the window"
        raise UserError(f"{run.label} has no numbers to compare\n  {why}")
    return run


def _read_report(path: Path) -> Mapping[str, object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, Mapping) or "measured_stage" not in data:
        write_one = f"cloudai-run report RUN --json > {path.name}"
        raise UserError(f"{path} is no report of cloudai-run\n  write one: {write_one}")
    version = data.get("schema_version")
    if version != _SCHEMA_VERSION:
        raise UserError(f"{path} has schema version {version!r}, and this version reads {_SCHEMA_VERSION}")
    return data


def run_from_report(report: Mapping[str, object], source: str) -> RunData:
    """Returns the run that a report.json describes (docs/report-json.md).

    Raises:
        UserError: The report lacks a key or has no steady step.
    """
    stage = _measured_stage(report, source)
    record = _mapping(report.get("record"))
    nodes = report.get("nodes")
    values, missing = _metrics(stage)
    steps = [step for step in _list(stage.get("steps")) if _mapping(step).get("steady")]
    times = [_number(_mapping(step).get("step_time_s")) for step in steps]
    if not values:
        why = missing.get("step_time_s", "no metric has a value")
        raise UserError(f"{source} has no numbers to compare\n  {why}")
    framework = report.get("framework")
    return RunData(
        label=str(report.get("run", source)),
        smoke=report.get("smoke") is True,
        status=_STATUSES.get(report.get("status"), "invalid"),
        reasons=tuple(map(str, _list(report.get("reasons")))),
        step_time_s=tuple(seconds for seconds in times if seconds is not None),
        values=values,
        missing=missing,
        shape=_shape(report),
        facts=RunFacts(record=record, config=report.get("config"), nodes=tuple(map(str, _list(nodes)))),
        framework=framework if isinstance(framework, str) else None,
        stage=str(report["measured_stage"]),
    )


def _measured_stage(report: Mapping[str, object], source: str) -> Mapping[str, object]:
    for stage in _list(report.get("stages")):
        if isinstance(stage, Mapping) and stage.get("name") == report["measured_stage"]:
            return stage
    raise UserError(f"{source} has no stage {report['measured_stage']!r}, which it names as the measured one")


def _metrics(stage: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name, entry in _mapping(stage.get("metrics")).items():
        value = _number(_mapping(entry).get("value"))
        if value is not None:
            values[str(name)] = value
        reason = _mapping(entry).get("missing")
        if reason is not None:
            missing[str(name)] = str(reason)
    return values, missing


def _shape(report: Mapping[str, object]) -> RunShape:
    model = report.get("model")
    gpu_model, precision = report.get("gpu_model"), report.get("precision")
    return RunShape(
        global_batch_size=_whole(report.get("global_batch_size")),
        seq_length=_whole(report.get("seq_length")),
        num_gpus=_whole(report.get("num_gpus")),
        model=ModelShape.from_mapping(model) if isinstance(model, Mapping) else None,
        gpu_model=gpu_model if isinstance(gpu_model, str) else None,
        precision=precision if isinstance(precision, str) else None,
    )


def _mapping(value: object) -> Mapping[str, object]:
    """A JSON object; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float | None:
    """A JSON number, or one of the strings that stand for what JSON cannot write; None for null."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
