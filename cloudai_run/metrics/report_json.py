"""report.json, for programs. docs/report-json.md describes each key; change it with the version."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.samples import Statistics, Step

SCHEMA_VERSION = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def report_json(report: Report) -> dict[str, Json]:
    """Returns the report as JSON: no NaN and no infinity (those are the strings "nan", "inf" and "-inf")."""
    record = report.facts.record
    content: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "run": report.label,
        "smoke": report.smoke,
        "status": report.status,
        "reasons": list(report.reasons),
        "outcome": report.outcome,
        "job": _job(report),
        "note": report.note,
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
        "peak_tflops_per_gpu": _peak(report),
        "metrics": _metrics(report, report.main),
        "stages": [_stage(report, stage) for stage in report.stages],
        "stage_records": list(report.stage_records),
        "record": dict(record),
        "config": report.facts.config,
        "nodes": list(report.facts.nodes),
        "script": report.script,
    }
    return {key: _finite(value) for key, value in content.items()}


def _job(report: Report) -> dict[str, object] | None:
    job = report.job
    if job is None:
        return None
    return {
        "job_id": job.job_id,
        "state": str(job.state),
        "exit_code": job.exit_code,
        "stage": job.stage,
        "node": job.node,
        "attempt": job.attempt,
        "source": job.source,
    }


def _peak(report: Report) -> float | None:
    """The dense peak under `mfu`; a smoke run has no `mfu`."""
    return report.main.throughput.peak_tflops if report.main.throughput and not report.smoke else None


def _metrics(report: Report, stage: StageReport) -> dict[str, object]:
    """Each metric that the run has or lacks for a reason: value, interval, unit, convention, sample count."""
    found: dict[str, object] = {}
    for name, metric in METRICS.items():
        if name in stage.values or name in stage.missing:
            low, high = stage.interval(name) or (None, None)
            found[name] = {
                "value": stage.values.get(name),
                "low": low,
                "high": high,
                "unit": report.unit(metric),
                "convention": metric.convention,
                "count": stage.counts.get(name, 0),
                "missing": stage.missing.get(name),
            }
    return found


def _stage(report: Report, stage: StageReport) -> dict[str, object]:
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
        "loss": {"first": stage.loss_first, "last": stage.loss_last, "window": _statistics(stage.loss)},
        "metrics": _metrics(report, stage),
        "framework_check": asdict(stage.framework_check) if stage.framework_check else None,
        "ranks": asdict(stage.ranks) if stage.ranks else None,
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
