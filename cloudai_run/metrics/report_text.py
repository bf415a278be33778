"""A run's report for a terminal: what it is, whether it may be used, and its numbers with unit and count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.samples import BusTable

SMOKE_LINE = "CPU smoke run: not a benchmark"
_NOT_IN_SMOKE = ("mfu", "mfu_non_causal", "tflops_per_gpu", "tflops_per_gpu_non_causal", "days_to_1t_tokens")


def report_text(report: Report) -> str:
    """Returns the whole report as lines for a terminal."""
    lines = [f"run {report.label}: {report.main.validity.status}"]
    if report.smoke:
        lines[0] = f"{SMOKE_LINE}\n{lines[0]}"
    lines += [f"  {reason}" for reason in report.main.validity.reasons]
    if report.outcome:
        lines.append(f"  {report.outcome}")
    lines += _what(report)
    for stage in report.stages:
        lines += ["", *_stage(stage, report.smoke, several=len(report.stages) > 1)]
    return "\n".join(lines) + "\n"


def _what(report: Report) -> Iterator[str]:
    record, shape = report.facts.record, report.shape
    parts = [
        str(record["recipe"]) if record.get("recipe") else None,
        _plural(shape.num_gpus, "process" if report.smoke else "GPU") if shape.num_gpus else None,
        shape.gpu_model,
        shape.precision,
        f"global batch {shape.global_batch_size}" if shape.global_batch_size else None,
        f"sequence {shape.seq_length}" if shape.seq_length else None,
    ]
    said = [part for part in parts if part]
    if said:
        yield f"  {', '.join(said)}"


def _stage(stage: StageReport, smoke: bool, several: bool) -> Iterator[str]:
    if several:
        yield f"stage {stage.name}: {stage.validity.status}"
        yield from (f"  {reason}" for reason in stage.validity.reasons)
    for table in stage.log.tables:
        yield from _bus_table(table)
    if stage.window.all_steps:
        yield from _steps(stage)
        yield ""
        yield from _metric_table(stage, smoke)
    yield from (f"  note: {text}" for text in remarks(stage, smoke))


def _steps(stage: StageReport) -> Iterator[str]:
    window = stage.window
    total = len(window.all_steps)
    yield f"  steps   {total} in the log, {len(window.steps)} measured ({window.rule})"
    if stage.loss_first is not None and stage.loss_last is not None:
        yield f"  loss    first {stage.loss_first:.4g}, last {stage.loss_last:.4g}"


def _metric_table(stage: StageReport, smoke: bool) -> Iterator[str]:
    time = stage.step_time
    if time is None:
        return
    rows = [("metric", "median", "unit", "mean", "std", "min", "max", "steps")]
    median, *others = map(_optional, (time.median, time.mean, time.std, time.min, time.max))
    rows.append(("step_time_s", median, "s", *others, str(time.count)))
    hidden = ("step_time_s", *(_NOT_IN_SMOKE if smoke else ()))
    for name, metric in METRICS.items():
        if metric.from_step_time and name in stage.values and name not in hidden:
            unit = "" if metric.unit == "1" else metric.unit
            words = f"{unit} {metric.convention or ''}".strip()
            rows.append(
                (name.removesuffix("_non_causal"), _value(name, stage.values[name]), words, *[""] * 5)
            )
    yield from _aligned(rows)
    if time.median_low is not None and time.median_high is not None:
        yield (
            f"  median step time {number(time.median)} s, {time.confidence:.0%} interval "
            f"{number(time.median_low)} to {number(time.median_high)} s"
        )


def hidden_in_smoke() -> tuple[str, ...]:
    """Returns the metrics that a CPU smoke run does not show: they would only invite comparison."""
    return _NOT_IN_SMOKE


def remarks(stage: StageReport, smoke: bool) -> Iterator[str]:
    """Yields what a reader must know beside the numbers, one sentence each."""
    log, time = stage.log, stage.step_time
    said = [stage.window.note, time.note if time else None, *log.notes]
    if time and time.trend and time.trend.significant:
        said.append(f"drift: step time changes by {time.trend.relative_change:+.1%} over the window")
    if time and time.outliers:
        shown = ", ".join(str(outlier.step) for outlier in time.outliers[:5])
        more = ", ..." if len(time.outliers) > 5 else ""
        said.append(f"{_plural(len(time.outliers), 'outlier')}: steps {shown}{more}")
    if stage.ranks:
        spread = stage.ranks
        where = f" on {spread.slowest_node}" if spread.slowest_node else ""
        said.append(f"ranks: spread {spread.spread:.1%}, slowest rank {spread.slowest_rank}{where}")
        said += [
            f"straggler: rank {rank.rank}{f' on {rank.node}' if rank.node else ''}, {rank.relative - 1:+.1%}"
            for rank in spread.stragglers
        ]
    if stage.framework_check and not smoke:
        check = stage.framework_check
        said.append(
            check.message or f"the framework's own {check.framework_tflops_per_gpu:.4g} TFLOP/s/GPU agrees"
        )
    if log.restarts:
        said.append(f"{_plural(log.restarts, 'restart')}, {log.superseded} repeated steps replaced")
    said += [str(problem) for problem in log.problems]
    said += [f"{failure.kind}: {failure.advice}" for failure in log.failures]
    said += [] if smoke else _why_missing(stage)
    yield from dict.fromkeys(text for text in said if text)


def _why_missing(stage: StageReport) -> list[str]:
    """One line for the metrics that lack a value for the same reason."""
    names: dict[str, list[str]] = {}
    for name, reason in stage.missing.items():
        if not name.endswith("_non_causal"):
            names.setdefault(reason, []).append(name)
    return [f"no {', '.join(metrics)}: {reason}" for reason, metrics in names.items()]


def _bus_table(table: BusTable) -> Iterator[str]:
    yield f"  {table.collective or 'collective'}: {len(table.devices)} devices"
    rows = [("size", "busbw_gb_per_s", "algbw_gb_per_s", "time_us", "wrong")]
    for row in table.rows:
        bandwidths = (row.out_of_place_busbw_gb_per_s, row.out_of_place_algbw_gb_per_s)
        numbers = (*bandwidths, row.out_of_place_time_us, row.out_of_place_wrong)
        rows.append((str(row.size_bytes), *map(_optional, numbers)))
    yield from _aligned(rows)
    if table.avg_busbw_gb_per_s is not None:
        yield f"  average bus bandwidth {number(table.avg_busbw_gb_per_s)} GB/s over {len(table.rows)} sizes"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with aligned columns: the first and the unit to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    header = list(rows[0])
    for row in rows:
        cells = [
            cell.ljust(width) if header[column] in ("metric", "unit") else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _plural(count: int, noun: str) -> str:
    ending = "" if count == 1 else ("es" if noun.endswith("s") else "s")
    return f"{count} {noun}{ending}"


def _value(name: str, value: float) -> str:
    return f"{value:.1%}" if METRICS[name].unit == "1" else number(value)


def _optional(value: float | None) -> str:
    return "-" if value is None else number(value)


def number(value: float) -> str:
    """Four significant digits, and no exponent for the sizes that people read."""
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}".replace(",", " ") if digits == 0 else f"{value:.{digits}f}"
