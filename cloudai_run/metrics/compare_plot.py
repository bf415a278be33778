"""A drawing of the changes with their intervals, as SVG inside the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cloudai_run.metrics.compare import Row

_WIDTH, _LABELS, _MARGIN = 720, 200, 40
_ROW_HEIGHT, _AXIS_HEIGHT = 26, 26


def interval_plot(rows: Sequence[Row], min_effect: float) -> str:
    """Returns one line a metric: a dot for the change, a bar for its interval, zero as a line.

    The shaded band holds the changes that are too small to matter. Empty where no metric has an interval.
    """
    drawn = [
        (row.metric.name, change.low, change.change, change.high)
        for row in rows
        if (change := row.effect) is not None and change.low is not None and change.high is not None
    ]
    if not drawn:
        return ""
    reach = max(2 * min_effect, *(abs(edge) for _, low, _, high in drawn for edge in (low, high))) * 1.05

    def x(value: float) -> float:
        return round(_LABELS + (value / reach + 1) / 2 * (_WIDTH - _LABELS - _MARGIN), 1)

    height = len(drawn) * _ROW_HEIGHT
    band = round(x(min_effect) - x(-min_effect), 1)
    parts = [
        f'<rect x="{x(-min_effect)}" y="0" width="{band}" height="{height}" fill="currentColor" opacity=".1"/>',
        f'<line x1="{x(0)}" x2="{x(0)}" y1="0" y2="{height}" stroke="currentColor" opacity=".5"/>',
    ]
    for index, (name, low, change, high) in enumerate(drawn):
        y = index * _ROW_HEIGHT + _ROW_HEIGHT // 2
        parts += [
            f'<text x="0" y="{y + 4}">{escape(name)}</text>',
            f'<line class="bar" x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}"/>',
            f'<circle class="dot" cx="{x(change)}" cy="{y}" r="4.5"/>',
        ]
    for value in (-reach, 0.0, reach):
        parts.append(f'<text x="{x(value)}" y="{height + 18}" text-anchor="middle">{value:+.1%}</text>')
    return (
        f'<svg role="img" aria-label="changes with their intervals" width="{_WIDTH}" '
        f'viewBox="0 0 {_WIDTH} {height + _AXIS_HEIGHT}">{"".join(parts)}</svg>'
    )
