"""A comparison as JSON, for programs. docs/metrics.md describes the keys; change it with the version."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

from cloudai_run.metrics.compare import Pair, Row
from cloudai_run.metrics.compare_cells import METHOD
from cloudai_run.metrics.compare_config import ABSENT, Difference
from cloudai_run.metrics.compare_results import Results
from cloudai_run.metrics.published import PublishedMatch, published_lines, published_sources
from cloudai_run.metrics.run_data import Side

SCHEMA_VERSION = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def comparison_json(results: Results) -> dict[str, Json]:
    """Returns the comparison as strict JSON; fractions stay fractions (0.03 is 3 %)."""
    comparison = results.comparison
    plain = {
        "schema_version": SCHEMA_VERSION,
        "options": asdict(comparison.options),
        "method": METHOD,
        "sides": [_side(side) for side in comparison.sides],
        "pairs": [_pair(pair) for pair in comparison.pairs],
        "published": [_published(side, match) for side, match in results.published],
        "gates": [asdict(gate) for gate in results.gates],
        "failed": results.failed,
    }
    return {key: _strict(value) for key, value in plain.items()}


def _side(side: Side) -> dict[str, object]:
    return {
        "name": side.name,
        "smoke": side.smoke,
        "runs": [
            {
                "run": run.label,
                "status": run.status,
                "reasons": run.reasons,
                "steps": len(run.step_time_s),
                "values": run.values,
                "missing": run.missing,
            }
            for run in side.runs
        ],
    }


def _pair(pair: Pair) -> dict[str, object]:
    return {
        "before": pair.before.name,
        "after": pair.after.name,
        "metrics": {row.metric.name: _row(row) for row in pair.rows},
        "differences": [_difference(difference) for difference in pair.differences],
        "notes": pair.notes,
    }


def _row(row: Row) -> dict[str, object]:
    change = row.effect
    return {
        "unit": row.metric.unit,
        "convention": row.metric.convention,
        "better": row.metric.better,
        "before": row.before,
        "after": row.after,
        "change": None if change is None else change.change,
        "low": None if change is None else change.low,
        "high": None if change is None else change.high,
        "basis": None if change is None else change.basis,
        "within_low": None if change is None else change.within_low,
        "within_high": None if change is None else change.within_high,
        "verdict": row.word,
        "reason": row.reason or None,
    }


def _difference(difference: Difference) -> dict[str, object]:
    found: dict[str, object] = {"category": difference.category, "path": difference.path}
    # A side that lacks the key has none here either: null is a value that configurations use.
    if difference.before is not ABSENT:
        found["before"] = difference.before
    if difference.after is not ABSENT:
        found["after"] = difference.after
    return {**found, "overridden": difference.overridden}


def _published(side: Side, match: PublishedMatch) -> dict[str, object]:
    return {
        "side": side.name,
        "rows": [
            {
                **asdict(row),
                "publication": asdict(published_sources()[row.source]),
                "metrics": [asdict(line) for line in published_lines(row, side)],
            }
            for row in match.rows
        ],
        "nearest": [
            {"source": row.source, "row": row.title(), "mismatches": off} for row, off in match.nearest
        ],
    }


def _strict(value: object) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return str(value)
