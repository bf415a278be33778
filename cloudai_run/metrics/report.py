"""One run's logs and record put together: the numbers of each stage and whether they may be used."""

from __future__ import annotations

import math
import statistics as stats
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.flops import ModelShape
from cloudai_run.metrics.ranks import rank_spread
from cloudai_run.metrics.run_data import RunData
from cloudai_run.metrics.samples import ParsedLog, RankSpread, Statistics, Step, Validity, Window
from cloudai_run.metrics.statistics import describe
from cloudai_run.metrics.throughput import (
    FrameworkCheck,
    RunShape,
    Throughput,
    check_framework_tflops,
    throughput,
)
from cloudai_run.metrics.validity import judge
from cloudai_run.metrics.window import steady_window

# Metrics that are a median over the window's steps of what the log prints.
_PRINTED = ("framework_tflops_per_gpu", "memory_reserved_bytes", "memory_allocated_bytes")


@dataclass(frozen=True, kw_only=True)
class StageReport:
    """The numbers of one stage.

    Attributes:
        step_time: of the steps in the window; None where there are none.
        throughput: from the median step time; None where there is none.
        loss: finite losses of the window in numbers, None where the log has none.
        loss_first, loss_last: of the whole log, NaN included.
        values: metric to value, for the metrics that have one (docs/metrics.md).
        missing: metric to the reason why it has none.
    """

    name: str
    log: ParsedLog
    window: Window
    validity: Validity
    step_time: Statistics | None = None
    loss: Statistics | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    throughput: Throughput | None = None
    framework_check: FrameworkCheck | None = None
    ranks: RankSpread | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run's report.

    Attributes:
        label: the run's id, or the names of the files.
        stages: in their order; `measured` is the name of the one whose numbers are the run's.
        shape: what throughput rests on.
        facts: how the run was made: run.json, config.yaml, nodes.
        outcome: how the job ended, in words; None if nobody knows.
        stage_records: the events of stages.jsonl.
    """

    label: str
    stages: tuple[StageReport, ...]
    measured: str
    shape: RunShape
    facts: RunFacts
    outcome: str | None = None
    stage_records: tuple[Mapping[str, object], ...] = ()

    @property
    def main(self) -> StageReport:
        """The measured stage."""
        return next(stage for stage in self.stages if stage.name == self.measured)

    @property
    def smoke(self) -> bool:
        """Whether this is a CPU smoke run, whose numbers are no benchmark."""
        return self.facts.record.get("smoke") is True

    def run_data(self) -> RunData:
        """Returns the run as comparisons see it."""
        framework = self.facts.record.get("framework")
        return RunData(
            label=self.label,
            smoke=self.smoke,
            status=self.main.validity.status,
            reasons=self.main.validity.reasons,
            step_time_s=tuple(_times(self.main.window.steps)),
            values=self.main.values,
            missing=self.main.missing,
            shape=self.shape,
            facts=self.facts,
            framework=framework if isinstance(framework, str) else None,
            stage=self.measured,
        )


def shape_of(record: Mapping[str, object], given: RunShape | None = None) -> RunShape:
    """Returns what a record says of the run's shape; what is given by hand wins."""
    nodes, gpus = _whole(record, "num_nodes"), _whole(record, "num_gpus_per_node")
    given = given or RunShape()
    return RunShape(
        global_batch_size=given.global_batch_size or _whole(record, "global_batch_size"),
        seq_length=given.seq_length or _whole(record, "seq_length"),
        num_gpus=given.num_gpus or (nodes * gpus if nodes and gpus else None),
        model=given.model or _model(record),
        gpu_model=given.gpu_model or _text(record, "gpu_model"),
        precision=given.precision or _text(record, "precision"),
    )


def _model(record: Mapping[str, object]) -> ModelShape | None:
    """The record's model; None for one whose FLOPs have no formula here (latent attention ...)."""
    model = record.get("model")
    try:
        return ModelShape.from_mapping(model) if isinstance(model, Mapping) else None
    except UserError:
        return None


def build_report(
    logs: Mapping[str, ParsedLog],
    *,
    label: str,
    facts: RunFacts,
    shape: RunShape,
    window: str | None = None,
    exit_codes: Mapping[str, int] | None = None,
    outcome: str | None = None,
    stage_records: Sequence[Mapping[str, object]] = (),
) -> Report:
    """Returns the report of a run.

    Args:
        logs: stage to its log, in order, at least one.
        label: the run's name.
        facts: run.json and config.yaml.
        shape: see `shape_of`.
        window: `FIRST:LAST` in place of the format's rule.
        exit_codes: of the stages, where they are known.
        outcome: how the job ended, in words.
        stage_records: the events of stages.jsonl.

    Raises:
        UserError: the window is not of its form.
    """
    measured = _measured(logs, facts.record)
    stages = tuple(
        _stage(name, log, facts.record, shape, window, (exit_codes or {}).get(name))
        for name, log in logs.items()
    )
    return Report(
        label=label,
        stages=stages,
        measured=measured,
        shape=_with_batch(shape, logs[measured]),
        facts=facts,
        outcome=outcome,
        stage_records=tuple(stage_records),
    )


def _measured(logs: Mapping[str, ParsedLog], record: Mapping[str, object]) -> str:
    """Returns the stage whose step times are the run's: the one that the record marks, else the last one."""
    if not logs:
        raise UserError("there is no log to report on")
    stages = record.get("stages")
    marked = [
        stage.get("name")
        for stage in (stages if isinstance(stages, Sequence) else ())
        if isinstance(stage, Mapping) and stage.get("measured")
    ]
    known = [name for name in marked if isinstance(name, str) and name in logs]
    return known[-1] if known else list(logs)[-1]


def _stage(
    name: str,
    log: ParsedLog,
    record: Mapping[str, object],
    shape: RunShape,
    override: str | None,
    exit_code: int | None,
) -> StageReport:
    window = steady_window(log, override=override, profiled=_profiled(record, name))
    expect_falling = False if record.get("smoke") is True else None
    validity = judge(
        log,
        window,
        max_steps=_whole(record, "max_steps"),
        exit_code=exit_code,
        expect_falling_loss=expect_falling,
    )
    losses = [step.loss for step in window.all_steps if step.loss is not None]
    finite = [
        (step.step, step.loss) for step in window.steps if step.loss is not None and math.isfinite(step.loss)
    ]
    loss = (
        describe([value for _, value in finite], steps=[number for number, _ in finite]) if finite else None
    )
    report = StageReport(
        name=name,
        log=log,
        window=window,
        validity=validity,
        loss=loss,
        loss_first=losses[0] if losses else None,
        loss_last=losses[-1] if losses else None,
        ranks=rank_spread(log, window),
    )
    return _with_numbers(report, _with_batch(shape, log))


def _with_numbers(report: StageReport, shape: RunShape) -> StageReport:

    steps = report.window.steps
    times = _times(steps)
    if not times:
        why = report.window.note or "the window holds no step time"
        return replace(report, missing={"step_time_s": why})
    step_time = describe(times, steps=[step.step for step in steps if step.step_time_s is not None])
    rate = throughput(step_time.median, shape)
    values: dict[str, float | None] = {
        "step_time_s": step_time.median,
        "tokens_per_s_per_gpu": rate.tokens_per_s_per_gpu,
        "tokens_per_s": rate.tokens_per_s,
        "samples_per_s": rate.samples_per_s,
        "days_to_1t_tokens": rate.days_to_1t_tokens,
        "tflops_per_gpu": rate.tflops_per_gpu["causal"],
        "tflops_per_gpu_non_causal": rate.tflops_per_gpu["non_causal"],
        "mfu": rate.mfu["causal"],
        "mfu_non_causal": rate.mfu["non_causal"],
        "loss": report.loss_last,
    }
    for name in _PRINTED:
        printed = [value for step in steps if (value := getattr(step, name)) is not None]
        values[name] = stats.median(printed) if printed else None
    missing = dict(rate.missing)
    for name in ("tflops_per_gpu", "mfu"):
        if name in missing:
            missing[f"{name}_non_causal"] = missing[name]
    return replace(
        report,
        step_time=step_time,
        throughput=rate,
        framework_check=check_framework_tflops(values["framework_tflops_per_gpu"], rate.tflops_per_gpu),
        values={name: value for name, value in values.items() if value is not None},
        missing=missing,
    )


def _with_batch(shape: RunShape, log: ParsedLog) -> RunShape:
    """The log's own global batch size where nothing else is known."""

    if shape.global_batch_size is not None:
        return shape
    sizes = {step.global_batch_size for step in log.steps if step.global_batch_size}
    return replace(shape, global_batch_size=sizes.pop()) if len(sizes) == 1 else shape


def _profiled(record: Mapping[str, object], stage: str) -> tuple[int, int] | None:
    steps = record.get("profiled_steps")
    pair = steps.get(stage) if isinstance(steps, Mapping) else None
    if isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(number, int) for number in pair):
        return int(pair[0]), int(pair[1])
    return None


def _times(steps: Sequence[Step]) -> list[float]:
    return [step.step_time_s for step in steps if step.step_time_s is not None]


def _whole(record: Mapping[str, object], key: str) -> int | None:
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) else None
