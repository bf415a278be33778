"""A report as Markdown for a pull request, and its steps as CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from cloudai_run.metrics.report import SMOKE_LINE, Report, StageReport
from cloudai_run.metrics.report_rows import (
    BUS_HEADER,
    HEADER,
    bus_rows,
    bus_title,
    loss_words,
    metric_rows,
    remarks,
    spread_words,
    steps_words,
    summary_words,
)

CSV_COLUMNS = (
    "run",
    "smoke",
    "stage",
    "step",
    "rank",
    "node",
    "attempt",
    "step_time_s",
    "loss",
    "val_loss",
    "grad_norm",
    "learning_rate",
    "steady",
    "excluded",
)


def report_markdown(report: Report) -> str:
    """Returns a heading, the verdict and one table a stage."""
    lines = [f"### {_plain(report.label)}: {report.status}", ""]
    if report.smoke:
        lines += [f"**{SMOKE_LINE}**", ""]
    job = report.outcome.splitlines()[0] if report.outcome else None
    said = [summary_words(report), job, *(reason for reason in report.reasons if reason != job), report.note]
    lines += [f"- {_plain(text)}" for text in said if text]
    for stage in report.stages:
        lines += [*([""] if lines[-1] else []), *_stage(report, stage)]
    return "\n".join(lines).rstrip() + "\n"


def _stage(report: Report, stage: StageReport) -> Iterator[str]:
    if len(report.stages) > 1:
        mark = " (measured)" if stage.name == report.measured else f": {stage.validity.status}"
        yield f"#### Stage {_plain(stage.name)}{mark}"
        yield ""
    for table in stage.log.tables:
        yield _plain(bus_title(table))
        yield ""
        yield from _table(BUS_HEADER, bus_rows(table))
        yield ""
    if rows := metric_rows(report, stage):
        yield from _table(HEADER, [row.cells for row in rows])
        yield ""
    if stage.window.all_steps:
        yield f"- steps: {_plain(steps_words(stage))}"
    if stage.step_time:
        yield f"- step_time_s: {spread_words(stage.step_time)}"
    if loss := loss_words(stage):
        yield f"- loss: {loss}"
    yield from (f"- {_plain(text)}" for text in remarks(report, stage))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    rule = [":--" if name in ("metric", "unit") else "--:" for name in header]
    for cells in (header, rule, *rows):
        yield f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Keeps a log's own text from becoming markup or another cell."""
    for mark in "\\|<*":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def report_csv(report: Report) -> str:
    """Returns one row for each step and rank of every stage; an empty cell is a value that the log does not hold."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for stage in report.stages:
        steady = {step.step for step in stage.window.steps}
        why = {item.step: item.reason for item in stage.window.excluded}
        for step in stage.log.steps:
            who = (
                report.label,
                _word(report.smoke),
                stage.name,
                step.step,
                step.rank,
                step.node,
                step.attempt,
            )
            values = (step.step_time_s, step.loss, step.val_loss, step.grad_norm, step.learning_rate)
            cells = ["" if value is None else value for value in (*who, *values)]
            writer.writerow([*cells, _word(step.step in steady), why.get(step.step, "")])
    return out.getvalue()


def _word(value: bool) -> str:
    return "true" if value else "false"
