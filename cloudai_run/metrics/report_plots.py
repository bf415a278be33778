"""The pictures of a report, drawn by matplotlib (the `plot` extra): step time, histogram, loss, ranks, stages."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.metrics.report import SMOKE_LINE, Report, StageReport
from cloudai_run.metrics.report_rows import number
from cloudai_run.metrics.samples import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY, RED, SHADE = "#1f6feb", "#7d8795", "#c0392b", "#dbe9ff"
# From this number of points on a line is a picture inside the SVG: a page must not grow with the run.
_RASTER_FROM = 3000
# A step that took longer than this many medians is marked at the edge instead of flattening all others.
_OFF_SCALE = 3.0


def new_figure(height_in: float = 3.0) -> Figure:
    """Returns an empty figure, 9 inches wide, that needs no display.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("plots need matplotlib\n  pip install 'cloudai-run[plot]'") from error
    return Figure(figsize=(9.0, height_in), layout="constrained")


def as_svg(figure: Figure, title: str) -> str:
    """Returns a figure as an SVG element whose bytes depend on the data alone."""
    import matplotlib

    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": title, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata=nothing, dpi=150)
    text = buffer.getvalue().decode("utf-8")
    return text[text.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def main_png(report: Report) -> bytes:
    """Returns the main plot (step time over steps) as a PNG.

    Raises:
        UserError: matplotlib is not installed, or there is no step time to draw.
    """
    if not any(step.step_time_s is not None for step in report.main.window.all_steps):
        raise UserError(f"there is no step time of {report.label} to draw")
    figure = new_figure(4.0)
    axes = figure.add_subplot()
    draw_step_time(axes, report.main)
    words = [
        report.label,
        *([SMOKE_LINE] if report.smoke else []),
        *([report.status] * (report.status != "valid")),
    ]
    axes.set_title(", ".join(words), fontsize=10, loc="left", pad=24)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


def draw(title: str, fill: Callable[[Axes], None], height_in: float = 3.0) -> str:
    """Returns one plot as SVG."""
    figure = new_figure(height_in)
    fill(figure.add_subplot())
    return as_svg(figure, title)


def plain(axes: Axes) -> None:
    """Gives axes a light grid and no frame above and to the right."""
    axes.grid(True, color="#e6e9ef", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_step_time(axes: Axes, stage: StageReport) -> None:
    """Step time over steps; the measured window shaded, what lies outside in grey, the ranks' range as a band."""
    inside = {step.step for step in stage.window.steps}
    timed = _timed(stage.window.all_steps)
    measured = [(x, y) for x, y in timed if x in inside]
    outside = [(x, y) for x, y in timed if x not in inside]
    raster = len(timed) > _RASTER_FROM
    plain(axes)
    if measured:
        edges = measured[0][0] - 0.5, measured[-1][0] + 0.5
        axes.axvspan(*edges, color=SHADE, label="measured window", zorder=0, linewidth=0)
        marker = "." if len(measured) <= 200 else ""
        axes.plot(
            *zip(*measured, strict=True),
            color=BLUE,
            marker=marker,
            linewidth=1,
            label="measured",
            rasterized=raster,
        )
    slowest = _rank_band(axes, stage)
    top = _top(timed, measured, slowest)
    shown = [(x, y) for x, y in outside if y <= top]
    if shown:
        axes.plot(
            *zip(*shown, strict=True),
            color=GREY,
            marker="x",
            linestyle="none",
            label="left out",
            rasterized=raster,
        )
    if stage.step_time:
        axes.axhline(stage.step_time.median, color=RED, linewidth=1, linestyle="--", label="median")
    if len(shown) < len(outside):
        axes.set_ylim(top=top)
        _mark_off_scale(axes, [(x, y) for x, y in outside if y > top], top)
    _by_step(axes)
    axes.set_ylabel("step time (s)")
    if timed:
        axes.legend(fontsize=8, frameon=False, ncols=5, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)


def _by_step(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _timed(steps: Sequence[Step]) -> list[tuple[int, float]]:
    return [(step.step, step.step_time_s) for step in steps if step.step_time_s is not None]


def _top(timed: Sequence[tuple[int, float]], measured: Sequence[tuple[int, float]], slowest: float) -> float:
    """Returns the upper edge of the axis: steps left out do not flatten those that are measured."""
    highest = max(slowest, *(y for _, y in timed)) if timed else 1.0
    if not measured:
        return highest
    times = sorted(y for _, y in measured)
    top = max(times[-1], slowest)
    limit = max(top, _OFF_SCALE * times[len(times) // 2])
    return highest if highest <= limit else top + 0.25 * (top - times[0] or top)


def _mark_off_scale(axes: Axes, points: Sequence[tuple[int, float]], top: float) -> None:
    axes.plot(
        [x for x, _ in points], [top] * len(points), color=GREY, marker="^", linestyle="none", clip_on=False
    )
    for x, y in points[:3]:
        axes.annotate(
            f"{number(y)} s", (x, top), xytext=(6, -9), textcoords="offset points", fontsize=8, color=GREY
        )


def _rank_band(axes: Axes, stage: StageReport) -> float:
    """Shows the fastest and the slowest rank of each measured step; returns the slowest of all, 0 without ranks."""
    if stage.ranks is None:
        return 0.0
    by_step: dict[int, list[float]] = {step.step: [] for step in stage.window.steps}
    for step in stage.log.steps:
        if step.step in by_step and step.step_time_s is not None:
            by_step[step.step].append(step.step_time_s)
    known = {number: times for number, times in by_step.items() if times}
    low, high = [min(times) for times in known.values()], [max(times) for times in known.values()]
    axes.fill_between(list(known), low, high, color=BLUE, alpha=0.2, linewidth=0, label="all ranks")
    return max(high, default=0.0)


def draw_histogram(axes: Axes, stage: StageReport) -> None:
    """How often each step time was measured, with median and 5th and 95th percentile."""
    from matplotlib.ticker import MaxNLocator

    times = [seconds for _, seconds in _timed(stage.window.steps)]
    plain(axes)
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
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.legend(fontsize=8, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)


def losses(steps: Sequence[Step], name: str = "loss") -> list[tuple[int, float]]:
    """Returns (step, loss) where the loss is finite."""
    found = ((step.step, getattr(step, name)) for step in steps)
    return [(at, value) for at, value in found if value is not None and math.isfinite(value)]


def draw_loss(axes: Axes, stage: StageReport) -> None:
    """The training loss, and the validation loss where there is one; a step whose loss is no number in red."""
    plain(axes)
    steps = stage.window.all_steps
    points = losses(steps)
    if points:
        raster = len(points) > _RASTER_FROM
        axes.plot(*zip(*points, strict=True), color=BLUE, linewidth=1.2, label="training", rasterized=raster)
    validation = losses(steps, "val_loss")
    if validation:
        axes.plot(*zip(*validation, strict=True), color=GREY, marker="o", linewidth=1, label="validation")
    bad = [step.step for step in steps if step.loss is not None and not math.isfinite(step.loss)]
    if bad:
        axes.axvspan(bad[0] - 0.5, bad[-1] + 0.5, color=RED, alpha=0.2, linewidth=0, label="not a number")
    _by_step(axes)
    axes.set_ylabel("loss")
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)
