"""A comparison as lines for a terminal and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cloudai_run.metrics.compare import Pair
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
from cloudai_run.metrics.compare_results import Results
from cloudai_run.metrics.published import PublishedMatch, published_sources
from cloudai_run.metrics.run_data import Side

Table = Callable[[Sequence[Sequence[str]]], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class _Style:
    """How headings, items and tables are written."""

    table: Table
    heading: str
    item: str
    strong: str


def terminal(results: Results) -> str:
    """Returns the comparison as aligned lines."""
    return _joined(_render(results, _Style(table=aligned, heading="", item="  ", strong="")))


def markdown(results: Results) -> str:
    """Returns the comparison as GitHub-flavoured Markdown."""
    return _joined(_render(results, _Style(table=markdown_table, heading="### ", item="- ", strong="**")))


def _joined(lines: Iterator[str]) -> str:
    """Joins the lines, no two empty ones in a row and none at the end."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n"


def _render(results: Results, style: _Style) -> Iterator[str]:
    comparison = results.comparison
    if any(side.smoke for side in comparison.sides):
        yield from (f"{style.strong}{SMOKE}{style.strong}", "")
    yield from style.table([SIDE_HEADER, *(side_cells(side) for side in comparison.sides)])
    for pair in comparison.pairs:
        yield from _section(f"{pair.after.name} against {pair.before.name}", style)
        yield from style.table([metric_header(pair, comparison), *(metric_cells(row) for row in pair.rows)])
        yield from (f"{style.item}note: {note}" for note in (*pair.notes, METHOD))
        yield from _section(difference_title(pair), style)
        yield from _differences(pair, style)
    if not comparison.pairs:
        yield from _section(f"Numbers of {comparison.sides[0].name}", style)
        yield from style.table([("metric", "value", "unit"), *value_cells(comparison.sides[0])])
    for side, match in results.published:
        yield from _section(f"{side.name} against published numbers", style)
        yield from _published(side, match, style)
    if results.gates:
        yield from _section("Gates", style)
        yield from style.table([GATE_HEADER, *(gate_cells(gate) for gate in results.gates)])


def _section(title: str, style: _Style) -> Iterator[str]:
    yield from ("", f"{style.heading}{title}")
    if style.heading:
        yield ""


def _differences(pair: Pair, style: _Style) -> Iterator[str]:
    if pair.differences:
        yield from style.table(
            [
                difference_header(pair),
                *(difference_cells(difference, pair) for difference in pair.differences),
            ]
        )
    remark = difference_remark(pair)
    if remark is not None:
        yield f"{style.item}{remark}"


def _published(side: Side, match: PublishedMatch, style: _Style) -> Iterator[str]:
    for row in match.rows:
        source = published_sources()[row.source]
        yield f"{style.item}{row.title()}"
        yield f"{style.item}from {source.title} ({source.location})"
        yield from style.table([published_header(side), *published_cells(row, side)])
        if row.note:
            yield f"{style.item}note: {row.note}"
        yield ""
    yield from (f"{style.item}{remark}" for remark in published_remarks(match))


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields rows as columns with two spaces between them."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields rows as a Markdown table, the first one as its header."""
    yield ""
    for index, row in enumerate(rows):
        yield f"| {' | '.join(_escaped(cell) for cell in row)} |"
        if index == 0:
            yield f"|{'|'.join(' --- ' for _ in row)}|"
    yield ""


# Each of these would change how Markdown reads a cell.
_ESCAPES = {"\\": "\\\\", "|": "\\|", "\n": " ", "<": "&lt;", "__": "\\_\\_"}


def _escaped(cell: str) -> str:
    for text, escaped in _ESCAPES.items():
        cell = cell.replace(text, escaped)
    return cell
