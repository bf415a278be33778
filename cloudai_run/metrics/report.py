"""A run's report as data: the numbers of each stage, whether they may be used, and how the run was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.definitions import METRICS, Metric
from cloudai_run.metrics.job_end import job_words
from cloudai_run.metrics.run_data import RunData
from cloudai_run.metrics.samples import ParsedLog, RankSpread, Statistics, Status, Validity, Window
from cloudai_run.metrics.throughput import FrameworkCheck, RunShape, Throughput

if TYPE_CHECKING:
    from cloudai_run.executors.outcome import Outcome

SMOKE_LINE = "CPU smoke run: not a benchmark"


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
        counts: metric to the number of samples that its value rests on.
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
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def measured_something(self) -> bool:
        """Whether there is a number to show: a step in the window, or a bandwidth."""
        return bool(self.values)

    def interval(self, name: str) -> tuple[float, float] | None:
        """Returns the interval of a metric, in its own unit.

        The median step time has one by bootstrap; a metric that is proportional to the step time, or to its
        inverse, takes it over.
        """
        time, value = self.step_time, self.values.get(name)
        if time is None or value is None or time.median_low is None or time.median_high is None:
            return None
        if not METRICS[name].from_step_time:
            return None
        if METRICS[name].better == "lower":
            return value * time.median_low / time.median, value * time.median_high / time.median
        return value * time.median / time.median_high, value * time.median / time.median_low


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run's report.

    Attributes:
        label: the run's id, or the names of the files.
        stages: in their order; `measured` is the name of the one whose numbers are the run's.
        shape: what throughput rests on.
        facts: how the run was made: run.json, config.yaml, nodes.
        job: how the job stands or ended; None if nobody knows (log files).
        job_reasons: what the job's end means for the numbers, empty if nothing.
        stage_records: the events of stages.jsonl.
        run_dir: the run folder; None for log files.
        script: the text of the script that ran; None if it is not known.
        note: what else is to be said of the run, None if nothing.
    """

    label: str
    stages: tuple[StageReport, ...]
    measured: str
    shape: RunShape
    facts: RunFacts
    job: Outcome | None = None
    job_reasons: tuple[str, ...] = ()
    stage_records: tuple[Mapping[str, object], ...] = ()
    run_dir: Path | None = None
    script: str | None = None
    note: str | None = None

    @property
    def main(self) -> StageReport:
        """The measured stage."""
        return next(stage for stage in self.stages if stage.name == self.measured)

    @property
    def outcome(self) -> str | None:
        """How the job stands or ended, in one to three lines; None if nobody knows."""
        return job_words(self.job) if self.job else None

    @property
    def smoke(self) -> bool:
        """Whether this is a CPU smoke run, whose numbers are no benchmark."""
        return self.facts.record.get("smoke") is True

    @property
    def status(self) -> Status:
        """The measured stage's; a job that failed elsewhere or did not come to its end makes it incomplete."""
        status = self.main.validity.status
        return "incomplete" if status == "valid" and self.job_reasons else status

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run is not valid, the job's end first."""
        return tuple(dict.fromkeys((*self.job_reasons, *self.main.validity.reasons)))

    def unit(self, metric: Metric) -> str:
        """Returns a metric's unit; a smoke run has processes where others have GPUs."""
        return metric.unit.replace("/GPU", "/process") if self.smoke else metric.unit

    def run_data(self) -> RunData:
        """Returns the run as comparisons see it."""
        framework = self.facts.record.get("framework")
        times = (step.step_time_s for step in self.main.window.steps)
        return RunData(
            label=self.label,
            smoke=self.smoke,
            status=self.status,
            reasons=self.reasons,
            step_time_s=tuple(seconds for seconds in times if seconds is not None),
            values=self.main.values,
            missing=self.main.missing,
            shape=self.shape,
            facts=self.facts,
            framework=framework if isinstance(framework, str) else None,
            stage=self.measured,
        )
