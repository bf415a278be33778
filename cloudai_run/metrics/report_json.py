"""report.json, for programs. docs/report-json.md describes each key; change it with the version."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.samples import RankSpread, Statistics, Step

SCHEMA_VERSION = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def report_json(report: Report) -> dict[str, Json]:
    """Returns the report as JSON: no NaN and no infinity (those are the strings "nan", "inf" and "-inf")."""
    record = report.facts.record
    main = report.main
    return _finite(
        {
            "schema_version": SCHEMA_VERSION,
            "run": report.label,
            "smoke": report.smoke,
            "status": main.validity.status,
            "reasons": list(main.validity.reasons),
            "outcome": report.outcome,
            "measured_stage": report.measured,
            "recipe": record.get("recipe"),
            "framework": record.get("framework"),
            "num_nodes": record.get("num_nodes"),
            "num_gpus": report.shape.num_gpus,
            "gpu_model": report.shape.gpu_model,
            "precision": report.shape.precision,
            "global_batch_size": report.shape.global_batch_size,
            "seq_length": report.shape.seq_length,
            "model": report.shape.model.to_mapping() if report.shape.model else None,
            "metrics": _metrics(main),
            "stages": [_stage(stage) for stage in report.stages],
            "stage_records": list(report.stage_records),
            "record": dict(record),
            "config": report.facts.config,
            "nodes": list(report.facts.nodes),
        }
    )


def _metrics(stage: StageReport) -> dict[str, object]:
    """Each metric that the run has or lacks for a reason: value, unit, convention, sample count."""
    found: dict[str, object] = {}
    count = stage.step_time.count if stage.step_time else 0
    for name, metric in METRICS.items():
        if name in stage.values or name in stage.missing:
            found[name] = {
                "value": stage.values.get(name),
                "unit": metric.unit,
                "convention": metric.convention,
                "count": count if name in stage.values else 0,
                "missing": stage.missing.get(name),
            }
    return found


def _stage(stage: StageReport) -> dict[str, object]:
    log, window = stage.log, stage.window
    inside = {step.step for step in window.steps}
    reasons = {item.step: item.reason for item in window.excluded}
    return {
        "name": stage.name,
        "format": log.format,
        "status": stage.validity.status,
        "reasons": list(stage.validity.reasons),
        "window": {
            "rule": window.rule,
            "first_step": window.first_step,
            "last_step": window.last_step,
            "count": len(window.steps),
            "excluded": len(window.excluded),
            "note": window.note,
        },
        "step_time_s": _statistics(stage.step_time),
        "loss": {**(_statistics(stage.loss) or {}), "first": stage.loss_first, "last": stage.loss_last},
        "metrics": _metrics(stage),
        "framework_check": asdict(stage.framework_check) if stage.framework_check else None,
        "ranks": _ranks(stage.ranks),
        "steps": [_step(step, step.step in inside, reasons.get(step.step)) for step in window.all_steps],
        "tables": [asdict(table) for table in log.tables],
        "log": {
            "sources": list(log.sources),
            "bytes_read": log.bytes_read,
            "lines_used": log.lines_used,
            "ended": log.ended,
            "max_steps": log.max_steps,
            "restarts": log.restarts,
            "superseded": log.superseded,
            "problems": [str(problem) for problem in log.problems],
            "notes": list(log.notes),
            "failures": [asdict(failure) for failure in log.failures],
        },
    }


def _statistics(values: Statistics | None) -> dict[str, object] | None:
    return asdict(values) if values else None


def _step(step: Step, steady: bool, reason: str | None) -> dict[str, object]:
    row = {
        "step": step.step,
        "step_time_s": step.step_time_s,
        "loss": step.loss,
        "val_loss": step.val_loss,
        "grad_norm": step.grad_norm,
        "learning_rate": step.learning_rate,
        "consumed_samples": step.consumed_samples,
    }
    return {**row, "steady": steady, "excluded": reason}


def _ranks(spread: RankSpread | None) -> dict[str, object] | None:
    return asdict(spread) if spread else None


def _finite(value: object) -> Json:
    """Returns a value as strict JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_finite(item) for item in value]
    return str(value)
