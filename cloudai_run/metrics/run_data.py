"""One run, and a side of several runs, as comparisons, gates and published numbers see them."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.samples import Status
from cloudai_run.metrics.throughput import RunShape


@dataclass(frozen=True, kw_only=True)
class RunData:
    """One run as the comparison needs it.

    Attributes:
        label: The run's id or the file's name.
        smoke: A CPU smoke run: its numbers are no benchmark.
        status, reasons: Whether the numbers may be used, and why not.
        step_time_s: The steps of the steady window, in order.
        values: Metric name to the run's value (of step_time_s: the median).
        missing: Metric name to why it has no value.
        shape: What throughput and FLOPs rest on.
        facts: What the run folder says about how the run was made.
        framework: "nemo", "paxml" ..., if known.
        stage: The stage that was measured, if the run has stages.
    """

    label: str
    smoke: bool
    status: Status
    reasons: tuple[str, ...] = ()
    step_time_s: tuple[float, ...]
    values: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    shape: RunShape
    facts: RunFacts
    framework: str | None = None
    stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """Runs of one configuration, called by a letter."""

    name: str
    runs: tuple[RunData, ...]

    @property
    def smoke(self) -> bool:
        return any(run.smoke for run in self.runs)

    def value(self, metric: str) -> float | None:
        """Returns the median over the runs, None where a run has no value."""
        values = [run.values[metric] for run in self.runs if metric in run.values]
        return median(values) if len(values) == len(self.runs) else None

    def why_missing(self, metric: str) -> str | None:
        """Returns why the side has no value, with the run it lacks in."""
        for run in self.runs:
            if metric not in run.values:
                return f"{run.label}: {run.missing.get(metric, 'not in the log')}"
        return None


def make_sides(groups: Sequence[Sequence[RunData]]) -> tuple[Side, ...]:
    """Names the groups A, B, C ...

    Raises:
        UserError: There are more than 26.
    """
    if len(groups) > len(string.ascii_uppercase):
        raise UserError(
            f"at most {len(string.ascii_uppercase)} sides can be compared, and there are {len(groups)}"
        )
    names = string.ascii_uppercase
    return tuple(Side(name=name, runs=tuple(runs)) for name, runs in zip(names, groups, strict=False))
