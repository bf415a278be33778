"""A report as Markdown for a pull request, and its steps as CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import Report
from cloudai_run.metrics.report_text import SMOKE_LINE, hidden_in_smoke, number, remarks

CSV_COLUMNS = (
    "stage",
    "step",
    "rank",
    "node",
    "attempt",
    "step_time_s",
    "loss",
    "val_loss",
    "grad_norm",
    "steady",
)


def report_markdown(report: Report) -> str:
    """Returns a heading, the verdict and one table a stage."""
    lines = [f"### {report.label}: {report.main.validity.status}", ""]
    if report.smoke:
        lines += [f"**{SMOKE_LINE}**", ""]
    lines += [f"- {reason}" for reason in report.main.validity.reasons]
    for stage in report.stages:
        count = stage.step_time.count if stage.step_time else 0
        lines += ["", f"Stage `{stage.name}`, {count} steps measured ({stage.window.rule})", ""]
        lines += ["| metric | value | unit | convention |", "|---|--:|---|---|"]
        for name, metric in METRICS.items():
            if name in stage.values and not (report.smoke and name in hidden_in_smoke()):
                value = number(stage.values[name])
                lines.append(f"| {name} | {value} | {metric.unit} | {metric.convention or ''} |")
        lines += ["", *(f"- {text}" for text in remarks(stage, report.smoke))]
    return "\n".join(lines).rstrip() + "\n"


def report_csv(report: Report) -> str:
    """Returns one row for each step and rank of every stage; an empty cell is a value that the log does not hold."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for stage in report.stages:
        steady = {step.step for step in stage.window.steps}
        for step in stage.log.steps:
            values = (step.step_time_s, step.loss, step.val_loss, step.grad_norm)
            who = (stage.name, step.step, step.rank, step.node, step.attempt)
            cells = ["" if value is None else value for value in (*who, *values)]
            writer.writerow([*cells, "true" if step.step in steady else "false"])
    return out.getvalue()
