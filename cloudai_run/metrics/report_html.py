"""A report as one HTML page that opens offline: no script, no font and no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import SMOKE_LINE, Report, StageReport
from cloudai_run.metrics.report_how import how_it_was_run
from cloudai_run.metrics.report_pictures import pictures
from cloudai_run.metrics.report_rows import (
    BUS_HEADER,
    HEADER,
    bus_rows,
    bus_title,
    loss_words,
    metric_rows,
    number,
    off,
    optional,
    rank_name,
    remarks,
    spread_words,
    steps_words,
    summary_words,
)

_STYLE = """
:root { color-scheme: light; --ink: #1c2430; --soft: #5b6675; --line: #dfe3ea; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff; max-width: 68rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.badge { border-radius: 1rem; padding: .15rem .7rem; font-size: .85rem; color: #fff; vertical-align: middle; }
.valid { background: #1a7f37; } .incomplete { background: #9a6700; } .invalid { background: #c0392b; }
.smoke { background: #fff3cd; border: 1px solid #e2c76b; padding: .5rem .8rem; border-radius: .4rem; }
.job { white-space: pre-line; overflow-wrap: anywhere; margin: .4rem 0; }
.reasons { border-left: 4px solid #c0392b; margin: .8rem 0; padding: .1rem 0 .1rem 1.4rem; overflow-wrap: anywhere; }
.reasons.incomplete-edge { border-color: #9a6700; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 9rem; }
.card b { display: block; font-size: 1.35rem; } .card span, .soft { color: var(--soft); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { text-align: right; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
.left { text-align: left; }
ul.notes { color: var(--soft); font-size: .88rem; padding-left: 1.2rem; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; } figcaption { font-weight: 600; margin-bottom: .2rem; }
svg { width: 100%; height: auto; } svg text { font-family: system-ui, sans-serif !important; }
pre { background: #f6f8fa; border-radius: .4rem; padding: .7rem; overflow-x: auto; font-size: .8rem; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
"""
_CARDS = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "loss", "busbw_gb_per_s")
_LEFT = ("metric", "unit", "rank", "step", "reason")
_MOST_RANKS = 16


def report_html(report: Report) -> str:
    """Returns the whole page.

    Raises:
        UserError: matplotlib is not installed.
    """
    title = f"{report.label}: {report.status}{f', {SMOKE_LINE}' if report.smoke else ''}"
    body = "\n".join(_body(report))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def _body(report: Report) -> Iterator[str]:
    record = report.facts.record
    yield f'<h1>{escape(report.label)} <span class="badge {report.status}">{report.status}</span></h1>'
    words = [summary_words(report), str(record.get("created_utc") or "")]
    yield f'<p class="soft">{escape(", ".join(word for word in words if word))}</p>'
    if report.smoke:
        yield f'<p class="smoke"><b>{SMOKE_LINE}.</b> It shows that the run works, not how fast it is.</p>'
    if report.outcome:
        yield f'<p class="job">{escape(report.outcome)}</p>'
    if report.note:
        yield f'<p class="job">{escape(report.note)}</p>'
    job = (report.outcome or "").splitlines()
    if reasons := [reason for reason in report.reasons if reason not in job]:
        items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
        edge = " incomplete-edge" if report.status == "incomplete" else ""
        yield f'<ul class="reasons{edge}">{items}</ul>'
    yield f'<div class="cards">{"".join(_cards(report))}</div>'
    for name, svg in pictures(report):
        yield f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>"
    for stage in report.stages:
        yield from _stage(report, stage)
    yield from how_it_was_run(report)


def _cards(report: Report) -> Iterator[str]:
    stage = report.main
    rows = {row.name: row for row in reversed(metric_rows(report, stage))}
    for name in (name for name in _CARDS if name in stage.values):
        row = rows[name]
        samples = {"loss": "last step", "busbw_gb_per_s": f"{row.count} sizes"}.get(
            name, f"{row.count} steps"
        )
        interval = f"<br>{row.interval}" if row.interval else ""
        unit = f"{escape(row.unit)}, " if row.unit else ""
        label = "last loss" if name == "loss" else METRICS[name].name
        yield (
            f'<div class="card"><span>{label}</span><b>{escape(row.value)}</b>'
            f"<span>{unit}{samples}{interval}</span></div>"
        )


def _stage(report: Report, stage: StageReport) -> Iterator[str]:
    measured = " (measured)" if stage.name == report.measured and len(report.stages) > 1 else ""
    status = stage.validity.status
    yield f'<h2>Stage {escape(stage.name)}{measured} <span class="badge {status}">{status}</span></h2>'
    if stage.name != report.measured:
        yield _notes(stage.validity.reasons)
    for table in stage.log.tables:
        yield f"<p>{escape(bus_title(table))}</p>{_table(BUS_HEADER, bus_rows(table))}"
    if rows := metric_rows(report, stage):
        yield _table(HEADER, [row.cells for row in rows])
    said = []
    if stage.window.all_steps:
        said.append(f"steps: {steps_words(stage)}")
    if stage.step_time:
        said.append(f"step_time_s: {spread_words(stage.step_time)}")
    if loss := loss_words(stage):
        said.append(f"loss: {loss}")
    yield _notes([*said, *remarks(report, stage)])
    if stage.ranks:
        ranks = stage.ranks.ranks[:_MOST_RANKS]
        cells = [
            (
                rank_name(rank),
                number(rank.median_step_time_s),
                off(rank.relative),
                str(rank.count),
                "straggler" if rank.straggler else "",
            )
            for rank in ranks
        ]
        yield _table(("rank", "median (s)", "off the median", "steps", ""), cells)
    excluded = [
        (str(item.step), optional(times.get(item.step)), item.reason)
        for times in [{step.step: step.step_time_s for step in stage.window.all_steps}]
        for item in stage.window.excluded
    ]
    if excluded:
        table = _table(("step", "step time (s)", "reason"), excluded[:200])
        yield f"<details><summary>Steps left out: {len(excluded)}</summary>{table}</details>"


def _notes(texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    styles = [' class="left"' if name in _LEFT else "" for name in header]
    head = "".join(f"<th{style}>{escape(name)}</th>" for name, style in zip(header, styles, strict=True))
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{style}>{escape(cell)}</td>" for cell, style in zip(row, styles, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
