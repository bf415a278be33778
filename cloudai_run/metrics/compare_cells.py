"""A comparison's tables as cells of text, for every output that has tables."""

from __future__ import annotations

from cloudai_run.metrics.compare import Comparison, Pair, Row
from cloudai_run.metrics.compare_config import Difference, show_value
from cloudai_run.metrics.definitions import METRICS, Metric
from cloudai_run.metrics.gates import GateResult
from cloudai_run.metrics.published import PublishedMatch, PublishedRow, published_lines
from cloudai_run.metrics.run_data import Side

METHOD = (
    "changes are between interquartile means of the steps (the mean of the middle half, less noisy than the "
    "median that the columns show)"
)
SMOKE = "CPU smoke run: not a benchmark"
SIDE_HEADER = ("side", "runs", "steps", "what")
GATE_HEADER = ("", "gate", "side", "seen")


def side_cells(side: Side) -> tuple[str, ...]:
    """Returns a side as cells: its name, its runs, the steps measured in each, what they are."""
    run = side.runs[0]
    shape = run.shape
    recipe = run.facts.record.get("recipe") or (shape.model.name if shape.model else None)
    gpus = None
    if shape.num_gpus:
        gpus = (
            f"{shape.num_gpus} processes" if side.smoke else f"{shape.num_gpus} x {shape.gpu_model or 'GPU'}"
        )
    parts = [
        recipe,
        gpus,
        shape.precision,
        f"global batch {shape.global_batch_size}" if shape.global_batch_size else None,
        f"sequence {shape.seq_length}" if shape.seq_length else None,
        f"stage {run.stage}" if run.stage not in (None, "log") else None,
    ]
    return (
        side.name,
        ", ".join(run.label for run in side.runs),
        ", ".join(str(len(run.step_time_s)) for run in side.runs),
        ", ".join(str(part) for part in parts if part),
    )


def metric_header(pair: Pair, comparison: Comparison) -> tuple[str, ...]:
    """Returns the header of the metric table."""
    level = f"{comparison.options.confidence * 100:g} % interval"
    return ("metric", "unit", pair.before.name, pair.after.name, "change", level, "verdict")


def metric_cells(row: Row) -> tuple[str, ...]:
    """Returns one metric as cells."""
    change = interval = ""
    if row.effect is not None:
        change = f"{row.effect.change:+.1%}"
        if row.effect.low is not None and row.effect.high is not None:
            interval = f"{row.effect.low:+.1%} to {row.effect.high:+.1%}"
    verdict = f"{row.word} ({row.reason})" if row.reason else row.word
    name, unit = metric_words(row.metric)
    return (name, unit, number(row.before), number(row.after), change, interval, verdict)


def metric_words(metric: Metric) -> tuple[str, str]:
    """Returns a metric's name and its unit with the convention, as tables print them."""
    unit = "" if metric.unit == "1" else metric.unit
    if metric.convention is None:
        return metric.name, unit
    return metric.name.removesuffix("_non_causal"), f"{unit} {metric.convention}".strip()


def value_cells(side: Side) -> list[tuple[str, ...]]:
    """Returns the values of a side that stands alone."""
    cells: list[tuple[str, ...]] = []
    for metric in METRICS.values():
        value = side.value(metric.name)
        if value is not None and not (metric.full_runs_only and side.smoke):
            name, unit = metric_words(metric)
            cells.append((name, number(value), unit))
    return cells


def difference_title(pair: Pair) -> str:
    """Returns the heading over what differs."""
    return f"What differs between {pair.before.name} and {pair.after.name} in how they were made"


def difference_header(pair: Pair) -> tuple[str, ...]:
    """Returns the header of the table of differences."""
    return ("where", "path", pair.before.name, pair.after.name, "")


def difference_remark(pair: Pair) -> str | None:
    """Returns what must be said where differences are not known or not there; None if there is nothing."""
    unknown = [side.name for side in (pair.before, pair.after) if side.runs[0].facts.config is None]
    if unknown:
        return f"not known: the configuration of {' and '.join(unknown)} (no config.yaml beside the numbers)"
    if not pair.differences:
        return "nothing: configuration, environment, flags, container, versions and nodes are the same"
    return None


def difference_cells(difference: Difference, pair: Pair) -> tuple[str, ...]:
    """Returns one difference as cells, marked where a user's override made it."""
    names = {"before": pair.before.name, "after": pair.after.name}
    by = " and ".join(names[side] for side in difference.overridden)
    return (
        difference.category,
        difference.path,
        show_value(difference.before),
        show_value(difference.after),
        f"override in {by}" if by else "",
    )


def published_header(side: Side) -> tuple[str, ...]:
    """Returns the header of a published row's table."""
    return ("metric", "unit", "published", side.name, "change")


def published_cells(row: PublishedRow, side: Side) -> list[tuple[str, ...]]:
    """Returns a published row's metrics beside the side's."""
    return [
        (
            *metric_words(METRICS[line.metric]),
            number(line.published),
            number(line.measured),
            f"{line.change:+.1%}",
        )
        for line in published_lines(row, side)
    ]


def published_remarks(match: PublishedMatch) -> list[str]:
    """Returns, where no row can be compared, why not."""
    if match.rows:
        return []
    if not match.nearest:
        return ["no published row is of this model"]
    return [
        "no published row is of the same GPUs, precision, batch and sequence; the nearest:",
        *(f"{row.title()} ({row.source}): {', '.join(off)}" for row, off in match.nearest),
    ]


def gate_cells(gate: GateResult) -> tuple[str, ...]:
    """Returns one gate as cells."""
    return ("FAILED" if gate.failed else "passed", gate.gate, gate.side, gate.message)


def number(value: float | None) -> str:
    """Returns a value with five significant digits, large ones without an exponent; `-` for None."""
    if value is None:
        return "-"
    if abs(value) >= 1e5 and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.5g}"
