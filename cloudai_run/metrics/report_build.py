"""Puts one run's logs and record together: from parsed stages to the numbers of its report."""

from __future__ import annotations

import math
import statistics as stats
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.metrics.bandwidth import METRIC_NAMES, bandwidths, judge_bandwidths
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.flops import ModelShape
from cloudai_run.metrics.job_end import exit_code_of, job_reasons, why_no_log, without_consequences
from cloudai_run.metrics.ranks import rank_spread
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.samples import ParsedLog, Step, Validity, Window
from cloudai_run.metrics.statistics import describe
from cloudai_run.metrics.throughput import RunShape, check_framework_tflops, throughput
from cloudai_run.metrics.validity import judge
from cloudai_run.metrics.window import steady_window

if TYPE_CHECKING:
    from cloudai_run.executors.outcome import Outcome
    from cloudai_run.executors.stage_records import StageRun

# Metrics that are a median over the window's steps of what the log prints.
_PRINTED = ("framework_tflops_per_gpu", "memory_reserved_bytes", "memory_allocated_bytes")
_MINIATURE = "says nothing about a CPU smoke run, whose model is a miniature"
# Of `throughput`, where a run has no model; the record may know more.
_NO_SHAPE = "the model's shape is not known"


def shape_of(record: Mapping[str, object], given: RunShape | None = None) -> RunShape:
    """Returns what a record says of the run's shape; what is given by hand wins."""
    nodes, gpus = _whole(record, "num_nodes"), _whole(record, "num_gpus_per_node")
    given = given or RunShape()
    return RunShape(
        global_batch_size=given.global_batch_size or _whole(record, "global_batch_size"),
        seq_length=given.seq_length or _whole(record, "seq_length"),
        num_gpus=given.num_gpus or (nodes * gpus if nodes and gpus else None),
        model=given.model or _model(record)[0],
        gpu_model=given.gpu_model or _text(record, "gpu_model"),
        precision=given.precision or _text(record, "precision"),
    )


def _model(record: Mapping[str, object]) -> tuple[ModelShape | None, str | None]:
    """The record's model, or why it has none: nothing is said, or no formula fits (latent attention ...)."""
    model = record.get("model")
    if not isinstance(model, Mapping):
        return None, None
    try:
        return ModelShape.from_mapping(model), None
    except UserError as error:
        return None, str(error)


def build_report(
    logs: Mapping[str, ParsedLog],
    *,
    label: str,
    facts: RunFacts,
    shape: RunShape,
    window: str | None = None,
    job: Outcome | None = None,
    stage_runs: Sequence[StageRun] = (),
    stage_records: Sequence[Mapping[str, object]] = (),
    run_dir: Path | None = None,
    script: str | None = None,
    note: str | None = None,
) -> Report:
    """Returns the report of a run.

    Args:
        logs: stage to its log, in order, at least one.
        label: the run's name.
        facts: run.json and config.yaml.
        shape: see `shape_of`.
        window: `FIRST:LAST` in place of the format's rule.
        job: how the job ended, if that is known.
        stage_runs: the stages as stages.jsonl tells of them.
        stage_records: its events, as they are.
        run_dir, script, note: see `Report`.

    Raises:
        UserError: there is no log, or the window is not of its form.
    """
    logs, measured = _with_measured(logs, facts.record)
    stages = tuple(
        _stage(
            name,
            without_consequences(log, job),
            facts.record,
            shape,
            window,
            exit_code_of(name, stage_runs, job),
        )
        if log.sources
        else _without_log(name, log, why_no_log(name, stage_runs))
        for name, log in logs.items()
    )
    return Report(
        label=label,
        stages=stages,
        measured=measured,
        shape=_with_batch(shape, logs[measured]),
        facts=facts,
        job=job,
        job_reasons=job_reasons(job),
        stage_records=tuple(stage_records),
        run_dir=run_dir,
        script=script,
        note=note,
    )


def _with_measured(
    logs: Mapping[str, ParsedLog], record: Mapping[str, object]
) -> tuple[Mapping[str, ParsedLog], str]:
    """Returns the logs and the stage whose numbers are the run's: the one that the record marks, else the last.

    A marked stage that left no log gets an empty one: the numbers of another stage must not stand for it.
    """
    if not logs:
        raise UserError("there is no log to report on")
    stages = record.get("stages")
    entries = [
        entry for entry in (stages if isinstance(stages, Sequence) else ()) if isinstance(entry, Mapping)
    ]
    marked = [str(entry.get("name")) for entry in entries if entry.get("measured")]
    if not marked or not any(entry.get("name") in logs for entry in entries):
        return logs, list(logs)[-1]
    if marked[-1] not in logs:
        logs = {**logs, marked[-1]: ParsedLog(format=None, stage=marked[-1], sources=())}
    return logs, marked[-1]


def _without_log(name: str, log: ParsedLog, why: str) -> StageReport:
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


def _stage(
    name: str,
    log: ParsedLog,
    record: Mapping[str, object],
    shape: RunShape,
    override: str | None,
    exit_code: int | None,
) -> StageReport:
    window = steady_window(log, override=override, profiled=_profiled(record, name))
    if log.tables and not log.steps:
        return _bandwidth_stage(name, log, replace(window, rule="none", note=None), exit_code)
    smoke = record.get("smoke") is True
    validity = judge(
        log,
        window,
        max_steps=_whole(record, "max_steps"),
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
    return _with_numbers(report, _with_batch(shape, log), _model(record)[1], smoke)


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


def _with_batch(shape: RunShape, log: ParsedLog) -> RunShape:
    """The log's own global batch size where nothing else is known."""
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


def _whole(record: Mapping[str, object], key: str) -> int | None:
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) else None
