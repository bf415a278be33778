"""The metrics that reports and comparisons know: name, unit, convention and which way is better.

docs/metrics.md says for each how it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from cloudai_run.metrics.flops import Convention

Better = Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric.

    Attributes:
        name: Also the key in report.json and the name in gates.
        unit: As it is printed; "1" is a ratio.
        better: Which way a run improves.
        speed: Whether a change is called faster or slower; else higher or lower.
        convention: Whether attention counts causally, for the metrics that depend on it.
        from_step_time: Whether it follows from step_time_s and constants of the run, so that the steps'
            spread is its spread.
        full_runs_only: Whether it says nothing about a CPU smoke run, whose model is a miniature.
    """

    name: str
    unit: str
    better: Better
    speed: bool = False
    convention: Convention | None = None
    from_step_time: bool = False
    full_runs_only: bool = False


_ALL: Final[tuple[Metric, ...]] = (
    Metric(name="step_time_s", unit="s", better="lower", speed=True, from_step_time=True),
    Metric(
        name="tokens_per_s_per_gpu", unit="tokens/s/GPU", better="higher", speed=True, from_step_time=True
    ),
    Metric(name="tokens_per_s", unit="tokens/s", better="higher", speed=True, from_step_time=True),
    Metric(name="samples_per_s", unit="sequences/s", better="higher", speed=True, from_step_time=True),
    Metric(
        name="days_to_1t_tokens",
        unit="days",
        better="lower",
        speed=True,
        from_step_time=True,
        full_runs_only=True,
    ),
    Metric(
        name="tflops_per_gpu",
        unit="TFLOP/s/GPU",
        better="higher",
        convention="causal",
        from_step_time=True,
        full_runs_only=True,
    ),
    Metric(
        name="tflops_per_gpu_non_causal",
        unit="TFLOP/s/GPU",
        better="higher",
        convention="non_causal",
        from_step_time=True,
        full_runs_only=True,
    ),
    Metric(
        name="mfu", unit="1", better="higher", convention="causal", from_step_time=True, full_runs_only=True
    ),
    Metric(
        name="mfu_non_causal",
        unit="1",
        better="higher",
        convention="non_causal",
        from_step_time=True,
        full_runs_only=True,
    ),
    Metric(name="framework_tflops_per_gpu", unit="TFLOP/s/GPU", better="higher", full_runs_only=True),
    Metric(name="loss", unit="1", better="lower"),
    Metric(name="memory_reserved_bytes", unit="B", better="lower"),
    Metric(name="memory_allocated_bytes", unit="B", better="lower"),
    Metric(name="busbw_gb_per_s", unit="GB/s", better="higher", speed=True),
    Metric(name="algbw_gb_per_s", unit="GB/s", better="higher", speed=True),
)

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({metric.name: metric for metric in _ALL})
