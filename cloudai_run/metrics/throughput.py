"""From the seconds of a step to tokens, FLOPs and utilisation, each with its unit in its name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cloudai_run.metrics.flops import CONVENTIONS, DEFAULT_CONVENTION, Convention, ModelShape, flops_per_token
from cloudai_run.metrics.gpus import peak

SECONDS_PER_DAY: Final = 86400
# A framework's own TFLOP/s line that differs from ours by more than this is worth a look.
FRAMEWORK_TOLERANCE: Final = 0.02


@dataclass(frozen=True, kw_only=True)
class RunShape:
    """What turns a step time into throughput; None where it is not known.

    Attributes:
        global_batch_size: Sequences a step over all GPUs.
        seq_length: Tokens a sequence.
        num_gpus: GPUs that take part (in a CPU smoke run: processes).
        model: The model's shape.
        gpu_model: Short or driver's name.
        precision: Precision of the matrix products ("bf16", "fp8", "mxfp8", "nvfp4" ...).
    """

    global_batch_size: int | None = None
    seq_length: int | None = None
    num_gpus: int | None = None
    model: ModelShape | None = None
    gpu_model: str | None = None
    precision: str | None = None


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """The metrics that follow from one step time; None where something is not known.

    Attributes:
        tflops_per_gpu: Model TFLOP/s of each GPU, by convention.
        mfu: `tflops_per_gpu` over the dense peak, a fraction, by convention.
        peak_tflops: The dense peak that `mfu` rests on.
        missing: Metric -> why it is None.
    """

    step_time_s: float
    samples_per_s: float | None
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    days_to_1t_tokens: float | None
    tflops_per_gpu: Mapping[Convention, float | None]
    mfu: Mapping[Convention, float | None]
    peak_tflops: float | None
    missing: Mapping[str, str] = field(default_factory=dict)


def tokens_per_step(shape: RunShape) -> int | None:
    """Returns the tokens of one step over all GPUs."""
    if shape.global_batch_size is None or shape.seq_length is None:
        return None
    return shape.global_batch_size * shape.seq_length


def tflops_per_gpu(
    tokens_per_s_per_gpu: float,
    model: ModelShape,
    seq_length: int,
    convention: Convention = DEFAULT_CONVENTION,
) -> float:
    """Returns model TFLOP/s of each GPU: tokens/s/GPU times FLOPs per token."""
    return tokens_per_s_per_gpu * flops_per_token(model, seq_length, convention) / 1e12


def throughput(step_time_s: float, shape: RunShape) -> Throughput:
    """Returns every metric that the known parts of `shape` allow, and for the others the reason why not."""
    missing: dict[str, str] = {}
    tokens = tokens_per_step(shape)
    tokens_per_s = None if tokens is None else tokens / step_time_s
    unknown = [name for name in ("global_batch_size", "seq_length") if getattr(shape, name) is None]
    if tokens_per_s is None:
        _explain(missing, ("tokens_per_s", "days_to_1t_tokens"), unknown)
    if shape.global_batch_size is None:
        _explain(missing, ("samples_per_s",), ["global_batch_size"])
    per_gpu = None if tokens_per_s is None or shape.num_gpus is None else tokens_per_s / shape.num_gpus
    if per_gpu is None:
        _explain(
            missing, ("tokens_per_s_per_gpu",), [*unknown, *(["num_gpus"] if shape.num_gpus is None else [])]
        )
    flops = _tflops(per_gpu, shape, missing)
    utilisation, dense_peak = _mfu(flops, shape, missing)
    return Throughput(
        step_time_s=step_time_s,
        samples_per_s=None if shape.global_batch_size is None else shape.global_batch_size / step_time_s,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_gpu=per_gpu,
        days_to_1t_tokens=None if tokens_per_s is None else 1e12 / tokens_per_s / SECONDS_PER_DAY,
        tflops_per_gpu=flops,
        mfu=utilisation,
        peak_tflops=dense_peak,
        missing=missing,
    )


def _explain(missing: dict[str, str], metrics: tuple[str, ...], unknown: list[str]) -> None:
    verb = "is" if len(unknown) == 1 else "are"
    for metric in metrics:
        missing[metric] = f"{' and '.join(unknown)} {verb} not known"


def _tflops(
    per_gpu: float | None, shape: RunShape, missing: dict[str, str]
) -> dict[Convention, float | None]:
    if per_gpu is None:
        missing["tflops_per_gpu"] = missing["tokens_per_s_per_gpu"]
        return dict.fromkeys(CONVENTIONS)
    if shape.model is None or shape.seq_length is None:
        missing["tflops_per_gpu"] = "the model's shape is not known"
        return dict.fromkeys(CONVENTIONS)
    return {
        convention: tflops_per_gpu(per_gpu, shape.model, shape.seq_length, convention)
        for convention in CONVENTIONS
    }


def _mfu(
    flops: Mapping[Convention, float | None], shape: RunShape, missing: dict[str, str]
) -> tuple[dict[Convention, float | None], float | None]:
    dense = peak(shape.gpu_model, shape.precision)
    if "tflops_per_gpu" in missing:
        missing["mfu"] = missing["tflops_per_gpu"]
    elif dense.tflops is None:
        missing["mfu"] = dense.reason
    ratios: dict[Convention, float | None] = {}
    for convention, value in flops.items():
        ratios[convention] = None if value is None or dense.tflops is None else value / dense.tflops
    return ratios, dense.tflops


@dataclass(frozen=True, kw_only=True)
class FrameworkCheck:
    """The framework's own TFLOP/s beside ours.

    Attributes:
        framework_tflops_per_gpu: What the log says.
        tflops_per_gpu: Ours, by convention.
        nearest: The convention whose number lies nearest to the framework's.
        difference: framework / ours - 1, at the default convention.
        flagged: Whether `difference` is over `FRAMEWORK_TOLERANCE`.
        message: One sentence when flagged, None otherwise.
    """

    framework_tflops_per_gpu: float
    tflops_per_gpu: Mapping[Convention, float]
    nearest: Convention
    difference: float
    flagged: bool
    message: str | None


def check_framework_tflops(
    framework_tflops_per_gpu: float | None, ours: Mapping[Convention, float | None]
) -> FrameworkCheck | None:
    """Compares the framework's TFLOP/s with ours; None where either is not known.

    A framework that prints 0 (Megatron-Bridge 25.11 does for hybrid models) has no number: 0 is not known.
    """
    known: dict[Convention, float] = {c: value for c in CONVENTIONS if (value := ours.get(c))}
    if not framework_tflops_per_gpu or DEFAULT_CONVENTION not in known:
        return None
    off = {convention: framework_tflops_per_gpu / value - 1 for convention, value in known.items()}
    nearest: Convention = min(CONVENTIONS, key=lambda convention: abs(off.get(convention, math.inf)))
    flagged = abs(off[DEFAULT_CONVENTION]) > FRAMEWORK_TOLERANCE
    message = None
    if flagged:
        message = (
            f"the framework says {framework_tflops_per_gpu:.4g} TFLOP/s/GPU, {off[DEFAULT_CONVENTION]:+.1%} "
            f"against ours ({known[DEFAULT_CONVENTION]:.4g}, {DEFAULT_CONVENTION})"
        )
        if nearest != DEFAULT_CONVENTION and abs(off[nearest]) <= FRAMEWORK_TOLERANCE:
            message += f"; it fits the {nearest} convention ({known[nearest]:.4g})"
    return FrameworkCheck(
        framework_tflops_per_gpu=framework_tflops_per_gpu,
        tflops_per_gpu=known,
        nearest=nearest,
        difference=off[DEFAULT_CONVENTION],
        flagged=flagged,
        message=message,
    )
