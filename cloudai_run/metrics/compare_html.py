"""A comparison as one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from cloudai_run.metrics.compare import Comparison, Pair, Row
from cloudai_run.metrics.compare_cells import (
    GATE_HEADER,
    METHOD,
    SIDE_HEADER,
    SMOKE,
    difference_cells,
    difference_header,
    difference_remark,
    difference_title,
    gate_cells,
    metric_cells,
    metric_header,
    published_cells,
    published_header,
    published_remarks,
    side_cells,
    value_cells,
)
from cloudai_run.metrics.compare_plot import interval_plot
from cloudai_run.metrics.compare_results import Results
from cloudai_run.metrics.published import PublishedMatch, published_sources
from cloudai_run.metrics.run_data import Side

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --better: #1a7f37; --worse: #c62828; --bar: #5b8def; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
.better { color: var(--better); font-weight: 600; } .worse { color: var(--worse); font-weight: 600; }
.smoke { border: 2px solid var(--worse); padding: .5rem .8rem; font-weight: 600; }
.notes { opacity: .85; padding-left: 1.2rem; }
svg { max-width: 100%; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.bar { stroke: var(--bar); stroke-width: 3; } .dot { fill: var(--bar); }
"""


def comparison_html(results: Results) -> str:
    """Returns the whole page."""
    comparison = results.comparison
    body = "\n".join(_body(results))
    title = " against ".join(side.name for side in reversed(comparison.sides))
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Comparison: {escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _body(results: Results) -> Iterator[str]:
    comparison = results.comparison
    yield "<h1>Comparison of runs</h1>"
    if any(side.smoke for side in comparison.sides):
        yield f'<p class="smoke">{SMOKE}</p>'
    if results.gates:
        yield _table(GATE_HEADER, [_gate_row(gate_cells(gate)) for gate in results.gates])
    yield _table(SIDE_HEADER, [_plain(side_cells(side)) for side in comparison.sides])
    for pair in comparison.pairs:
        yield from _pair(pair, comparison)
    if not comparison.pairs:
        side = comparison.sides[0]
        yield f"<h2>Numbers of {escape(side.name)}</h2>"
        yield _table(("metric", "value", "unit"), [_plain(cells) for cells in value_cells(side)])
    for side, match in results.published:
        yield from _published(side, match)


def _pair(pair: Pair, comparison: Comparison) -> Iterator[str]:
    yield f"<h2>{escape(pair.after.name)} against {escape(pair.before.name)}</h2>"
    yield _table(metric_header(pair, comparison), [_metric_row(row) for row in pair.rows])
    yield interval_plot(pair.rows, comparison.options.min_effect)
    yield _notes([*pair.notes, METHOD])
    yield f"<h2>{escape(difference_title(pair))}</h2>"
    if pair.differences:
        rows = [_difference_row(difference_cells(difference, pair)) for difference in pair.differences]
        yield _table(difference_header(pair), rows)
    remark = difference_remark(pair)
    if remark is not None:
        yield _notes([remark])


def _metric_row(row: Row) -> str:
    name, unit, before, after, change, interval, verdict = (escape(cell) for cell in metric_cells(row))
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in (before, after, change, interval))
    return f"<td><code>{name}</code></td><td>{unit}</td>{numbers}<td{_verdict_class(row)}>{verdict}</td>"


def _verdict_class(row: Row) -> str:
    if row.effect is None or row.word in ("no difference", "not tested"):
        return ""
    better = (row.effect.change > 0) == (row.metric.better == "higher")
    return f' class="{"better" if better else "worse"}"'


def _difference_row(cells: Sequence[str]) -> str:
    where, path, before, after, mark = (escape(cell) for cell in cells)
    return (
        f"<td>{where}</td><td><code>{path}</code></td><td><code>{before}</code></td>"
        f"<td><code>{after}</code></td><td>{mark}</td>"
    )


def _gate_row(cells: Sequence[str]) -> str:
    word, *others = (escape(cell) for cell in cells)
    style = "worse" if word == "FAILED" else "better"
    return f'<td class="{style}">{word}</td>' + "".join(f"<td>{cell}</td>" for cell in others)


def _published(side: Side, match: PublishedMatch) -> Iterator[str]:
    yield f"<h2>{escape(side.name)} against published numbers</h2>"
    for row in match.rows:
        source = published_sources()[row.source]
        yield f"<p>{escape(row.title())}<br>"
        yield f"from {escape(source.title)} (<code>{escape(source.location)}</code>)</p>"
        yield _table(published_header(side), [_plain(cells) for cells in published_cells(row, side)])
        if row.note:
            yield _notes([row.note])
    if not match.rows:
        yield _notes(published_remarks(match))


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="notes">{items}</ul>'


def _plain(cells: Sequence[str]) -> str:
    return "".join(f"<td>{escape(cell)}</td>" for cell in cells)


def _table(header: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
