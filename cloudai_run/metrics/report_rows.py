"""The words and cells of a report, shared by terminal, Markdown and HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.samples import BusTable, RankSummary, Statistics

HEADER = ("metric", "value", "95 % interval", "unit", "samples")
BUS_HEADER = ("size (B)", "busbw_gb_per_s", "algbw_gb_per_s", "time (us)", "wrong")
_SHOWN_RANKS = 8


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric as text: its name, value, interval ("" for none), unit with convention, sample count."""

    name: str
    value: str
    interval: str
    unit: str
    count: str

    @property
    def cells(self) -> tuple[str, ...]:
        return self.name, self.value, self.interval, self.unit, self.count


def metric_rows(report: Report, stage: StageReport) -> list[Row]:
    """Returns a row for each metric that has a value."""
    rows: list[Row] = []
    for name, metric in METRICS.items():
        if name not in stage.values:
            continue
        words = ("" if metric.unit == "1" else report.unit(metric), metric.convention or "")
        bounds = stage.interval(name)
        rows.append(
            Row(
                name=name.removesuffix("_non_causal"),
                value=_shown(name, stage.values[name]),
                interval=" to ".join(_shown(name, bound) for bound in bounds) if bounds else "",
                unit=" ".join(word for word in words if word),
                count=str(stage.counts.get(name, "")),
            )
        )
    return rows


def _shown(name: str, value: float) -> str:
    return f"{value:.1%}".replace("%", " %") if name.startswith("mfu") else number(value)


def spread_words(time: Statistics) -> str:
    """Returns the spread of the step times in one line."""
    words = [f"mean {number(time.mean)}"]
    if time.std is not None:
        words.append(f"standard deviation {number(time.std)}")
    if time.cv is not None:
        words.append(f"variation {percent(time.cv)}")
    ends = (("min", time.min), ("p5", time.p5), ("p95", time.p95), ("max", time.max))
    return ", ".join([*words, *(f"{name} {number(value)}" for name, value in ends)])


def summary_words(report: Report) -> str:
    """Returns what ran, in one line; empty if nothing is known."""
    record, shape = report.facts.record, report.shape
    nodes = record.get("num_nodes")
    words = [
        record.get("recipe"),
        plural(nodes, "node") if isinstance(nodes, int) else None,
        plural(shape.num_gpus, "process" if report.smoke else "GPU") if shape.num_gpus else None,
        shape.gpu_model,
        shape.precision,
        f"global batch {shape.global_batch_size}" if shape.global_batch_size else None,
        f"sequence {shape.seq_length}" if shape.seq_length else None,
    ]
    return ", ".join(str(word) for word in words if word)


def steps_words(stage: StageReport) -> str:
    """Returns how many steps there are and which of them are measured."""
    window = stage.window
    measured = f"{len(window.steps)} measured"
    if window.first_step is not None:
        measured += f" ({window.first_step} to {window.last_step})"
    return f"{len(window.all_steps)} in the log, {measured}: {window.rule}"


def loss_words(stage: StageReport) -> str | None:
    """Returns the first and the last loss."""
    if stage.loss_first is None or stage.loss_last is None:
        return None
    return f"first {stage.loss_first:.4g}, last {stage.loss_last:.4g}"


def remarks(report: Report, stage: StageReport) -> Iterator[str]:
    """Yields what a reader must know beside the numbers, one sentence each."""
    log, time = stage.log, stage.step_time
    said = [stage.window.note, *log.notes]
    if time and not (stage.window.note or "").startswith("only"):
        said.append(time.note)
    if time and time.trend and time.trend.significant:
        said.append(f"drift: the step time changes by {off(1 + time.trend.relative_change)} over the window")
    if time and time.outliers:
        shown = ", ".join(str(outlier.step) for outlier in time.outliers[:5])
        more = ", ..." if len(time.outliers) > 5 else ""
        steps = "step" if len(time.outliers) == 1 else "steps"
        said.append(f"{plural(len(time.outliers), 'outlier')} in the step time: {steps} {shown}{more}")
    said += _rank_remarks(stage)
    if stage.framework_check:
        check = stage.framework_check
        agrees = f"the framework's own {check.framework_tflops_per_gpu:.4g} TFLOP/s/GPU agrees with ours"
        said.append(check.message or agrees)
    if stage.values.get("mfu", 0.0) > 1:
        said.append("mfu is over 100 %: batch, sequence, GPUs, precision or model are not this log's")
    if log.restarts:
        said.append(
            f"{plural(log.restarts, 'restart')}: {plural(log.superseded, 'repeated step')} replaced by the later one"
        )
    said += [str(problem) for problem in log.problems]
    said += [f"{failure.kind}: {failure.advice}" for failure in log.failures]
    said += [] if report.smoke else _why_missing(stage)
    said += [_what_to_give(report, stage)]
    yield from dict.fromkeys(text for text in said if text and text not in stage.validity.reasons)


def _rank_remarks(stage: StageReport) -> list[str]:
    spread = stage.ranks
    if spread is None:
        return []
    words = (
        f"{len(spread.ranks)} ranks: spread {percent(spread.spread)}, slowest {rank_name(spread.ranks[0])}"
    )
    late = [f"straggler: {rank_name(rank)}, {off(rank.relative)}" for rank in spread.stragglers]
    more = [f"and {len(late) - _SHOWN_RANKS} more stragglers"] if len(late) > _SHOWN_RANKS else []
    return [words, *late[:_SHOWN_RANKS], *more]


def rank_name(rank: RankSummary) -> str:
    """Returns a rank with its node, as far as the log names them."""
    name = "the unlabelled rank" if rank.rank is None else f"rank {rank.rank}"
    return f"{name} on {rank.node}" if rank.node else name


def _why_missing(stage: StageReport) -> list[str]:
    """One line for the metrics that lack a value for the same reason."""
    names: dict[str, list[str]] = {}
    for name, reason in stage.missing.items():
        if not name.endswith("_non_causal") and reason != stage.window.note:
            names.setdefault(reason, []).append(name)
    return [f"no {', '.join(metrics)}: {reason}" for reason, metrics in names.items()]


def _what_to_give(report: Report, stage: StageReport) -> str | None:
    """Of logs without a record: the options that give what they do not say."""
    if report.facts.record or stage.step_time is None:
        return None
    shape = report.shape
    options = {
        "--model": shape.model,
        "--gpus": shape.num_gpus,
        "--gpu": shape.gpu_model,
        "--precision": shape.precision,
        "--global-batch-size": shape.global_batch_size,
        "--seq-length": shape.seq_length,
    }
    unknown = [option for option, value in options.items() if value is None]
    return f"what the log does not say can be given: {', '.join(unknown)}" if unknown else None


def bus_rows(table: BusTable) -> list[tuple[str, ...]]:
    """Returns the out-of-place numbers of an nccl-tests table, one row a size."""
    return [
        (
            str(row.size_bytes),
            *map(
                optional,
                (
                    row.out_of_place_busbw_gb_per_s,
                    row.out_of_place_algbw_gb_per_s,
                    row.out_of_place_time_us,
                    row.out_of_place_wrong,
                ),
            ),
        )
        for row in table.rows
    ]


def bus_title(table: BusTable) -> str:
    """Returns the collective and its devices."""
    kinds = ", ".join(dict.fromkeys(table.devices.values()))
    return f"{table.collective or 'collective'}, {plural(len(table.devices), 'device')}" + (
        f" ({kinds})" if kinds else ""
    )


def plural(count: int, noun: str) -> str:
    """Returns "1 GPU", "2 GPUs", "2 processes"."""
    ending = "" if count == 1 else ("es" if noun.endswith("s") else "s")
    return f"{count} {noun}{ending}"


def off(relative: float) -> str:
    """Returns 1.086 as "+8.6 %", and what rounds to nothing as "0.0 %"."""
    points = round(100 * (relative - 1), 1)
    return f"{points:+.1f} %" if points else "0.0 %"


def percent(share: float) -> str:
    """Returns 0.0123 as "1.2 %"."""
    return f"{100 * share:.1f} %"


def optional(value: float | None) -> str:
    """Returns a number, or "-" for a missing one."""
    return "-" if value is None else number(value)


def number(value: float) -> str:
    """Four significant digits, and no exponent for the sizes that people read."""
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.4g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}".replace(",", " ") if digits == 0 else f"{value:.{digits}f}"
