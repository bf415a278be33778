"""Which plots a report has, and those of ranks, stages and bandwidths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.report_plots import (
    BLUE,
    GREY,
    RED,
    as_svg,
    draw,
    draw_histogram,
    draw_loss,
    draw_step_time,
    new_figure,
    plain,
)
from cloudai_run.metrics.report_rows import rank_name
from cloudai_run.metrics.samples import BusTable, Step
from cloudai_run.metrics.series import Who, who

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More ranks than this in the heat map are shown by the slowest ones alone: a page must stay readable.
MAX_RANKS = 64
# The colours of the heat map end at this deviation at the latest where no rank is that far off.
_LEAST_SCALE = 0.02


def pictures(report: Report) -> Iterator[tuple[str, str]]:
    """Yields title and SVG of every plot that the report has data for.

    Raises:
        UserError: matplotlib is not installed.
    """
    for stage in report.stages:
        suffix = f" ({stage.name})" if len(report.stages) > 1 else ""
        yield from _of_stage(stage, suffix)
    if spans := stage_spans(report.stage_records):
        yield "Stages", draw("Stages", partial(_draw_stages, spans=spans), 0.9 + 0.35 * len(spans))


def _of_stage(stage: StageReport, suffix: str) -> Iterator[tuple[str, str]]:
    if any(step.step_time_s is not None for step in stage.window.all_steps):
        title = f"Step time over steps{suffix}"
        yield title, draw(title, partial(draw_step_time, stage=stage))
    if stage.step_time is not None:
        title = f"Distribution of the measured steps{suffix}"
        yield title, draw(title, partial(draw_histogram, stage=stage), 2.4)
    if any(step.loss is not None for step in stage.window.all_steps):
        title = f"Loss{suffix}"
        yield title, draw(title, partial(draw_loss, stage=stage))
    if stage.ranks is not None:
        title = f"Ranks: step time over the median of the step{suffix}"
        yield title, rank_map(stage, title)
    for table in stage.log.tables:
        if table.rows:
            title = f"Bandwidth over size: {table.collective or 'collective'}{suffix}"
            yield title, draw(title, partial(_draw_bandwidth, table=table))


def rank_map(stage: StageReport, title: str) -> str:
    """A heat map, ranks by steps, of the step time over the median of that step; the slowest ranks on top."""
    assert stage.ranks is not None
    ranks = stage.ranks.ranks[:MAX_RANKS]
    medians = {step.step: step.step_time_s for step in stage.window.steps}
    by_rank: dict[Who, dict[int, Step]] = {}
    for step in stage.log.steps:
        by_rank.setdefault(who(step), {})[step.step] = step
    rows = [
        [
            _relative(by_rank.get(_key(rank.rank, rank.node), {}).get(number), median)
            for number, median in medians.items()
        ]
        for rank in ranks
    ]
    figure = new_figure(min(9.0, 1.5 + 0.22 * len(ranks)))
    axes = figure.add_subplot()
    known = [100 * abs(value - 1) for row in rows for value in row if not math.isnan(value)]
    limit = max([*known, 100 * _LEAST_SCALE])
    off = [[100 * (value - 1) for value in row] for row in rows]
    image = axes.imshow(off, aspect="auto", cmap="coolwarm", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_yticks(range(len(ranks)), [rank_name(rank) for rank in ranks], fontsize=7)
    numbers = list(medians)
    ticks = range(0, len(numbers), max(1, len(numbers) // 12))
    axes.set_xticks(ticks, [str(numbers[at]) for at in ticks], fontsize=8)
    axes.set_xlabel("step")
    figure.colorbar(image, ax=axes, label="% off the median")
    return as_svg(figure, title)


def _key(rank: int | None, node: str | None) -> Who:
    return (rank, None) if rank is not None else (None, node)


def _relative(step: Step | None, median: float | None) -> float:
    if step is None or step.step_time_s is None or not median:
        return math.nan
    return step.step_time_s / median


@dataclass(frozen=True)
class Span:
    """A stage on the clock of the run: seconds since the first start; `length_s` None if no end is recorded."""

    label: str
    start_s: float
    length_s: float | None
    exit_code: int | None


def stage_spans(records: Sequence[Mapping[str, object]]) -> list[Span]:
    """Returns each stage of each attempt in the order of their starts."""
    starts: dict[tuple[object, object], float] = {}
    ends: dict[tuple[object, object], tuple[float, int | None]] = {}
    for event in records:
        key, at, code = (
            (event.get("attempt"), event.get("stage")),
            event.get("time_unix_s"),
            event.get("exit_code"),
        )
        if not isinstance(at, (int, float)):
            continue
        if event.get("event") == "start":
            starts[key] = float(at)
        elif event.get("event") == "end":
            ends[key] = float(at), code if isinstance(code, int) else None
    first = min(starts.values(), default=0.0)
    spans: list[Span] = []
    for (attempt, stage), start in starts.items():
        end, code = ends.get((attempt, stage), (None, None))
        label = f"{stage}, attempt {attempt}" if attempt else str(stage)
        spans.append(Span(label, start - first, None if end is None else end - start, code))
    return spans


def _draw_stages(axes: Axes, spans: Sequence[Span]) -> None:
    """One bar a stage on a common clock; a failed stage in red, one without an end open to the right."""
    plain(axes)
    last = max(span.start_s + (span.length_s or 0.0) for span in spans) or 1.0
    for row, span in enumerate(spans):
        if span.length_s is None:
            length, words = max(last - span.start_s, 0.02 * last), "no end recorded"
            axes.barh(row, length, left=span.start_s, color="none", edgecolor=GREY, hatch="//", height=0.6)
        else:
            length, words = span.length_s, f"{span.length_s:.1f} s"
            axes.barh(row, length, left=span.start_s, color=RED if span.exit_code else BLUE, height=0.6)
            words += f", exit code {span.exit_code}" if span.exit_code else ""
        place = (span.start_s + length, row)
        axes.annotate(words, place, xytext=(5, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(spans)), [span.label for span in spans], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("seconds since the first stage began")


def _draw_bandwidth(axes: Axes, table: BusTable) -> None:
    plain(axes)
    for name, colour in (("busbw", BLUE), ("algbw", GREY)):
        found = [(row.size_bytes, getattr(row, f"out_of_place_{name}_gb_per_s")) for row in table.rows]
        points = [(size, value) for size, value in found if value is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=".", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size (B)")
    axes.set_ylabel("GB/s")
    axes.legend(fontsize=8, frameon=False)
