"""Puts one run's logs and record together: from parsed stages to the numbers of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.flops import ModelShape
from cloudai_run.metrics.job_end import exit_code_of, job_reasons, why_no_log, without_consequences
from cloudai_run.metrics.report import Report
from cloudai_run.metrics.samples import ParsedLog
from cloudai_run.metrics.stage_numbers import stage_report, with_batch, without_log
from cloudai_run.metrics.throughput import RunShape

if TYPE_CHECKING:
    from cloudai_run.executors.outcome import Outcome
    from cloudai_run.executors.stage_records import StageRun


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
    no_model = _model(facts.record)[1]
    stages = tuple(
        stage_report(
            name,
            without_consequences(log, job),
            facts.record,
            shape,
            no_model=no_model,
            override=window,
            exit_code=exit_code_of(name, stage_runs, job),
        )
        if log.sources
        else without_log(name, log, why_no_log(name, stage_runs))
        for name, log in logs.items()
    )
    return Report(
        label=label,
        stages=stages,
        measured=measured,
        shape=with_batch(shape, logs[measured]),
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


def _whole(record: Mapping[str, object], key: str) -> int | None:
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) else None
