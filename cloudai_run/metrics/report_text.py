"""A run's report for a terminal: what it is, whether it may be used, and its numbers with unit and count."""

from __future__ import annotations

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

_TO_THE_LEFT = ("metric", "unit")


def report_text(report: Report) -> str:
    """Returns the whole report as lines for a terminal."""
    lines = [SMOKE_LINE] if report.smoke else []
    lines.append(f"run {report.label}: {report.status}")
    job = (report.outcome or "").splitlines()
    lines += [f"  {line.strip()}" for line in job]
    lines += [f"  {reason}" for reason in report.reasons if reason not in job]
    lines += [f"  {text}" for text in (summary_words(report), report.note) if text]
    for stage in report.stages:
        lines += ["", *_stage(report, stage)]
    return "\n".join(lines) + "\n"


def _stage(report: Report, stage: StageReport) -> Iterator[str]:
    if len(report.stages) > 1:
        mark = ", measured" if stage.name == report.measured else ""
        yield f"stage {stage.name}: {stage.validity.status}{mark}"
        if stage.name != report.measured:
            yield from (f"  {reason}" for reason in stage.validity.reasons)
    for table in stage.log.tables:
        yield f"  {bus_title(table)}"
        yield from _aligned(BUS_HEADER, bus_rows(table))
    if stage.window.all_steps:
        yield f"  steps   {steps_words(stage)}"
        if loss := loss_words(stage):
            yield f"  loss    {loss}"
    if rows := metric_rows(report, stage):
        yield ""
        yield from _aligned(HEADER, [row.cells for row in rows])
    if stage.step_time:
        yield f"  step_time_s: {spread_words(stage.step_time)}"
    yield from (f"  note: {text}" for text in remarks(report, stage))


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with aligned columns: names and units to the left, numbers to the right; empty columns left out."""
    columns = [column for column in range(len(header)) if any(row[column] for row in rows)]
    table = [header, *rows]
    widths = {column: max(len(row[column]) for row in table) for column in columns}
    for row in table:
        cells = [
            row[column].ljust(widths[column])
            if header[column] in _TO_THE_LEFT
            else row[column].rjust(widths[column])
            for column in columns
        ]
        yield f"  {'  '.join(cells)}".rstrip()
