"""The pictures of a report, drawn by matplotlib (the `plot` extra): step time, histogram, loss, ranks, stages."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.samples import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY, RED, SHADE = "#1f6feb", "#7d8795", "#c0392b", "#dbe9ff"
# More ranks than this in the heat map are shown by the slowest ones alone: a page must stay readable.
MAX_RANKS = 64


def new_figure(width_in: float = 9.0, height_in: float = 3.0) -> Figure:
    """Returns an empty figure that needs no display.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("plots need matplotlib\n  pip install 'cloudai-run[plot]'") from error
    return Figure(figsize=(width_in, height_in), layout="constrained")


def as_svg(figure: Figure) -> str:
    """Returns a figure as an SVG element whose bytes depend on the data alone."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "cloudai-run", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue().decode("utf-8")
    return text[text.index("<svg") :]


def main_png(report: Report) -> bytes:
    """Returns the main plot (step time over steps) as a PNG."""
    figure = new_figure(9.0, 4.0)
    axes = figure.add_subplot()
    draw_step_time(axes, report.main)
    axes.set_title(
        f"{report.label}{' (CPU smoke run: not a benchmark)' if report.smoke else ''}", fontsize=10
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def plots(report: Report) -> dict[str, str]:
    """Returns title -> SVG of every plot that the report has data for."""
    found: dict[str, str] = {}
    for stage in report.stages:
        suffix = f" ({stage.name})" if len(report.stages) > 1 else ""
        if stage.step_time is None:
            continue
        found[f"Step time over steps{suffix}"] = _draw(lambda axes, s=stage: draw_step_time(axes, s))
        found[f"Distribution of the measured steps{suffix}"] = _draw(
            lambda axes, s=stage: draw_histogram(axes, s)
        )
        if _losses(stage):
            found[f"Loss{suffix}"] = _draw(lambda axes, s=stage: draw_loss(axes, s))
        if stage.ranks is not None:
            found[f"Step time by rank, relative to the median of the step{suffix}"] = rank_map(stage)
    if spans := stage_spans(report.stage_records):
        height = 0.9 + 0.35 * len(spans)
        found["Stages"] = _draw(lambda axes: draw_stages(axes, spans), height)
    return found


def _draw(draw: Callable[[Axes], None], height_in: float = 3.0) -> str:
    figure = new_figure(height_in=height_in)
    draw(figure.add_subplot())
    return as_svg(figure)


def _plain(axes: Axes) -> None:
    axes.grid(True, color="#e6e9ef", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_step_time(axes: Axes, stage: StageReport) -> None:
    """Step time over steps; the measured window shaded, what lies outside in grey."""
    inside = {step.step for step in stage.window.steps}
    timed = [(step.step, step.step_time_s) for step in stage.window.all_steps if step.step_time_s is not None]
    measured = [(x, y) for x, y in timed if x in inside]
    outside = [(x, y) for x, y in timed if x not in inside]
    _plain(axes)
    if measured:
        axes.axvspan(
            measured[0][0] - 0.5, measured[-1][0] + 0.5, color=SHADE, label="measured window", zorder=0
        )
        axes.plot(*zip(*measured, strict=True), color=BLUE, marker=".", linewidth=1, label="measured")
    if outside:
        axes.plot(*zip(*outside, strict=True), color=GREY, marker="x", linestyle="none", label="left out")
    if stage.step_time:
        axes.axhline(stage.step_time.median, color=RED, linewidth=1, linestyle="--", label="median")
        low, high = min(y for _, y in timed), max(y for _, y in timed)
        if low > 0 and high / low > 20:
            axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("step time (s)")
    axes.legend(fontsize=8, frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1, 1))


def draw_histogram(axes: Axes, stage: StageReport) -> None:
    """How often each step time was measured, with median and 5th and 95th percentile."""
    times = [step.step_time_s for step in stage.window.steps if step.step_time_s is not None]
    _plain(axes)
    axes.hist(times, bins=max(5, min(60, round(2 * math.sqrt(len(times))))), color=BLUE, alpha=0.85)
    if stage.step_time:
        for value, style, label in (
            (stage.step_time.median, "-", "median"),
            (stage.step_time.p5, ":", "5 %, 95 %"),
            (stage.step_time.p95, ":", None),
        ):
            axes.axvline(value, color=RED, linestyle=style, linewidth=1, label=label)
    axes.set_xlabel("step time (s)")
    axes.set_ylabel("steps")
    axes.legend(fontsize=8, frameon=False)


def _losses(stage: StageReport) -> list[tuple[int, float]]:
    return [
        (step.step, step.loss)
        for step in stage.window.all_steps
        if step.loss is not None and math.isfinite(step.loss)
    ]


def draw_loss(axes: Axes, stage: StageReport) -> None:
    """The training loss, and the validation loss where there is one."""
    _plain(axes)
    axes.plot(*zip(*_losses(stage), strict=True), color=BLUE, linewidth=1.2, label="training")
    validation = [
        (step.step, step.val_loss)
        for step in stage.window.all_steps
        if step.val_loss is not None and math.isfinite(step.val_loss)
    ]
    if validation:
        axes.plot(*zip(*validation, strict=True), color=RED, marker="o", linewidth=1, label="validation")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend(fontsize=8, frameon=False)


def rank_map(stage: StageReport) -> str:
    """A heat map, ranks by steps, of the step time over the median of that step; the slowest ranks on top."""
    assert stage.ranks is not None
    ranks = [summary.rank for summary in stage.ranks.ranks][:MAX_RANKS]
    numbers = sorted({step.step for step in stage.window.steps})
    by_rank: dict[int | None, dict[int, Step]] = {}
    for step in stage.log.steps:
        by_rank.setdefault(step.rank, {})[step.step] = step
    medians = {step.step: step.step_time_s for step in stage.window.steps}
    rows = [
        [_relative(by_rank.get(rank, {}).get(number), medians[number]) for number in numbers]
        for rank in ranks
    ]
    figure = new_figure(height_in=min(9.0, 1.2 + 0.22 * len(ranks)))
    axes = figure.add_subplot()
    limit = max([abs(value - 1) for row in rows for value in row if not math.isnan(value)] or [0.05]) or 0.05
    image = axes.imshow(
        rows, aspect="auto", cmap="coolwarm", vmin=1 - limit, vmax=1 + limit, interpolation="nearest"
    )
    axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks], fontsize=7)
    ticks = range(0, len(numbers), max(1, len(numbers) // 12))
    axes.set_xticks(ticks, [str(numbers[at]) for at in ticks], fontsize=8)
    axes.set_xlabel("step")
    figure.colorbar(image, ax=axes, label="relative")
    return as_svg(figure)


def _relative(step: Step | None, median: float | None) -> float:
    if step is None or step.step_time_s is None or not median:
        return math.nan
    return step.step_time_s / median


def stage_spans(records: Sequence[Mapping[str, object]]) -> list[tuple[str, float, float, int | None]]:
    """Returns (label, start, length, exit code) of each stage, in seconds since the first start."""
    starts: dict[tuple[object, object], float] = {}
    spans: list[tuple[str, float, float, int | None]] = []
    for event in records:
        key, at = (event.get("attempt"), event.get("stage")), event.get("time_unix_s")
        if not isinstance(at, (int, float)):
            continue
        if event.get("event") == "start":
            starts[key] = float(at)
        elif key in starts:
            code = event.get("exit_code")
            label = str(event.get("stage")) + (f" #{event.get('attempt')}" if event.get("attempt") else "")
            spans.append(
                (label, starts[key], float(at) - starts[key], code if isinstance(code, int) else None)
            )
    first = min((start for _, start, _, _ in spans), default=0.0)
    return [(label, start - first, length, code) for label, start, length, code in spans]


def draw_stages(axes: Axes, spans: Sequence[tuple[str, float, float, int | None]]) -> None:
    """One bar a stage on a common clock; a failed stage in red."""
    _plain(axes)
    for row, (_, start, length, code) in enumerate(spans):
        axes.barh(row, length, left=start, color=RED if code else BLUE, height=0.6)
        axes.text(start + length, row, f" {length:.1f} s", va="center", fontsize=8)
    axes.set_yticks(range(len(spans)), [label for label, *_ in spans], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("seconds since the first stage began")
