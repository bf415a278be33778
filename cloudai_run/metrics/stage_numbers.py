"""The numbers of one stage: from its parsed log to metrics, or to the reasons why there are none."""

from __future__ import annotations

import math
import statistics as stats
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cloudai_run.metrics.bandwidth import METRIC_NAMES, bandwidths, judge_bandwidths
from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.ranks import rank_spread
from cloudai_run.metrics.report import StageReport
from cloudai_run.metrics.samples import ParsedLog, Step, Validity, Window
from cloudai_run.metrics.statistics import describe
from cloudai_run.metrics.throughput import RunShape, check_framework_tflops, throughput
from cloudai_run.metrics.validity import judge
from cloudai_run.metrics.window import steady_window

# Metrics that are a median over the window's steps of what the log prints.
_PRINTED = ("framework_tflops_per_gpu", "memory_reserved_bytes", "memory_allocated_bytes")
_MINIATURE = "says nothing about a CPU smoke run, whose model is a miniature"
# Of `throughput`, where a run has no model; the record may know more.
_NO_SHAPE = "the model's shape is not known"


def without_log(name: str, log: ParsedLog, why: str) -> StageReport:
    """Returns the report of a stage that should have been measured and left nothing."""
    empty = Window(
        rule="none", steps=(), all_steps=(), excluded=(), first_step=None, last_step=None, note=why
    )
    return StageReport(
        name=name,
        log=log,
        window=empty,
        validity=Validity("invalid", (why,)),
        missing={"step_time_s": why},
    )


def stage_report(
    name: str,
    log: ParsedLog,
    record: Mapping[str, object],
    shape: RunShape,
    *,
    no_model: str | None,
    override: str | None,
    exit_code: int | None,
) -> StageReport:
    """Returns the report of one stage.

    Args:
        name: the stage's.
        log: what was read of it.
        record: run.json.
        shape: what throughput rests on.
        no_model: why the record's model has no FLOPs, where that is known.
        override: `FIRST:LAST` in place of the format's rule.
        exit_code: of the stage, if it is known and tells something.

    Raises:
        UserError: the override is not of its form.
    """
    window = steady_window(log, override=override, profiled=_profiled(record, name))
    if log.tables and not log.steps:
        return _bandwidth_stage(name, log, replace(window, rule="none", note=None), exit_code)
    smoke = record.get("smoke") is True
    max_steps = record.get("max_steps")
    validity = judge(
        log,
        window,
        max_steps=max_steps if isinstance(max_steps, int) else None,
        exit_code=exit_code,
        expect_falling_loss=False if smoke else None,
    )
    losses = [step.loss for step in window.all_steps if step.loss is not None]
    finite = [
        (step.step, step.loss) for step in window.steps if step.loss is not None and math.isfinite(step.loss)
    ]
    loss = describe([value for _, value in finite], steps=[at for at, _ in finite]) if finite else None
    report = StageReport(
        name=name,
        log=log,
        window=window,
        validity=validity,
        loss=loss,
        loss_first=losses[0] if losses else None,
        loss_last=losses[-1] if losses else None,
        ranks=rank_spread(log, window),
    )
    return _with_numbers(report, with_batch(shape, log), no_model, smoke)


def _bandwidth_stage(name: str, log: ParsedLog, window: Window, exit_code: int | None) -> StageReport:
    values, why = bandwidths(log.tables)
    sizes = len(log.tables[0].rows)
    return StageReport(
        name=name,
        log=log,
        window=window,
        validity=judge_bandwidths(log, exit_code),
        values=values,
        missing=dict.fromkeys(METRIC_NAMES, why) if why else {},
        counts=dict.fromkeys(values, sizes),
    )


def _with_numbers(report: StageReport, shape: RunShape, no_model: str | None, smoke: bool) -> StageReport:
    steps = report.window.steps
    times = [(step.step, step.step_time_s) for step in steps if step.step_time_s is not None]
    if not times:
        why = report.window.note or "the window holds no step time"
        return replace(report, missing={"step_time_s": why})
    step_time = describe([seconds for _, seconds in times], steps=[number for number, _ in times])
    rate = throughput(step_time.median, shape)
    known: dict[str, float | None] = {
        "step_time_s": step_time.median,
        "tokens_per_s_per_gpu": rate.tokens_per_s_per_gpu,
        "tokens_per_s": rate.tokens_per_s,
        "samples_per_s": rate.samples_per_s,
        "days_to_1t_tokens": rate.days_to_1t_tokens,
        "tflops_per_gpu": rate.tflops_per_gpu["causal"],
        "tflops_per_gpu_non_causal": rate.tflops_per_gpu["non_causal"],
        "mfu": rate.mfu["causal"],
        "mfu_non_causal": rate.mfu["non_causal"],
        "loss": report.loss_last,
    }
    counts = dict.fromkeys(known, step_time.count) | {"loss": 1}
    for name in _PRINTED:
        known[name], counts[name] = _median_printed(steps, name)
    missing = dict(rate.missing)
    for name in ("tflops_per_gpu", "mfu"):
        if missing.get(name) == _NO_SHAPE and no_model and shape.model is None:
            missing[name] = no_model
        if name in missing:
            missing[f"{name}_non_causal"] = missing[name]
    check = check_framework_tflops(known["framework_tflops_per_gpu"], rate.tflops_per_gpu)
    if smoke:
        hidden = {name for name, metric in METRICS.items() if metric.full_runs_only}
        missing.update({name: _MINIATURE for name in known if name in hidden})
        known = {name: value for name, value in known.items() if name not in hidden}
        check = None
    values = {name: value for name, value in known.items() if value is not None}
    return replace(
        report,
        step_time=step_time,
        throughput=rate,
        framework_check=check,
        values=values,
        missing=missing,
        counts={name: counts[name] for name in values},
    )


def _median_printed(steps: Sequence[Step], name: str) -> tuple[float | None, int]:
    printed = [value for step in steps if (value := getattr(step, name)) is not None]
    return (stats.median(printed) if printed else None), len(printed)


def with_batch(shape: RunShape, log: ParsedLog) -> RunShape:
    """Returns the shape with the log's own global batch size where nothing else is known."""
    if shape.global_batch_size is not None:
        return shape
    sizes = {step.global_batch_size for step in log.steps if step.global_batch_size}
    return replace(shape, global_batch_size=sizes.pop()) if len(sizes) == 1 else shape


def _profiled(record: Mapping[str, object], stage: str) -> tuple[int, int] | None:
    steps = record.get("profiled_steps")
    pair = steps.get(stage) if isinstance(steps, Mapping) else None
    if isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(number, int) for number in pair):
        return int(pair[0]), int(pair[1])
    return None
