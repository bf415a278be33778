"""Dense peak throughput of GPUs by precision, for MFU: each number with its source.

Dense means without structured sparsity: data sheets that print the sparse number are halved. A GPU or a
precision that is not in the table has no peak, and so a run on it has no MFU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU model.

    Attributes:
        name: The short name that reports use.
        peak_tflops: Dense TFLOP/s by precision (1e12 a second).
        source: Where the numbers come from, with its date.
        aliases: Other normalised names of the same part (see `normalised`): the driver's names.
    """

    name: str
    peak_tflops: Mapping[str, float]
    source: str
    aliases: tuple[str, ...] = ()


# The tensor cores' rates of Hopper's and Blackwell's 8-bit formats do not depend on how values are scaled.
_SAME_PEAK: Final[Mapping[str, str]] = {"mxfp8": "fp8", "fp4": "nvfp4"}
# Mixed precision in 16 bits runs its matrix products in that format.
_PRECISION_NAMES: Final[Mapping[str, str]] = {
    "bfloat16": "bf16",
    "bf16-mixed": "bf16",
    "float16": "fp16",
    "fp16-mixed": "fp16",
    "16-mixed": "fp16",
    "float32": "fp32",
    "32": "fp32",
    "fp8-cs": "fp8",
    "fp8-mx": "mxfp8",
    "tf32": "tf32",
}

_DGXC = "NVIDIA dgxc-benchmarking llama3.1/README.md, table of peak theoretical throughput (2025-2026)"
_HOPPER = f"{_DGXC}; TF32: NVIDIA H100 data sheet (2023), sparse number halved"
_GB200 = f"{_DGXC}; the GB200 NVL72 data sheet (2024) gives 2 % more, but published MFU rests on these"

_TABLE: Final[tuple[Gpu, ...]] = (
    Gpu(
        name="A100",
        peak_tflops={"tf32": 156, "bf16": 312, "fp16": 312},
        source="NVIDIA A100 Tensor Core GPU data sheet (2021)",
        aliases=(
            "a100 sxm4 40gb",
            "a100 sxm4 80gb",
            "a100 pcie 40gb",
            "a100 pcie 80gb",
            "a100 80gb pcie",
            "a100 sxm 64gb",
            "a100 40gb",
            "a100 80gb",
            "a100 80g",
            "a100 sxm",
            "a800 sxm4 80gb",
            "a800 80gb pcie",
        ),
    ),
    Gpu(
        name="H100",
        peak_tflops={"tf32": 494.5, "bf16": 989, "fp16": 989, "fp8": 1979},
        source=_HOPPER,
        aliases=(
            "h100 80gb hbm3",
            "h100 sxm",
            "h100 sxm5",
            "h100 sxm5 80gb",
            "h100 80gb",
            "h800",
            "dgx h100",
        ),
    ),
    Gpu(
        name="H100 PCIe",
        peak_tflops={"tf32": 378, "bf16": 756, "fp16": 756, "fp8": 1513},
        source="NVIDIA H100 data sheet (2023), PCIe column, sparse numbers halved",
        aliases=("h100 pcie 80gb", "h100 80gb pcie"),
    ),
    Gpu(
        name="H100 NVL",
        peak_tflops={"tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5},
        source="NVIDIA H100 data sheet (2024), NVL column, sparse numbers halved",
    ),
    Gpu(
        name="H200",
        peak_tflops={"tf32": 494.5, "bf16": 989, "fp16": 989, "fp8": 1979},
        source="NVIDIA H200 data sheet (2024), SXM column, sparse numbers halved",
        aliases=("h200 sxm", "h200 141gb hbm3e", "h200 141gb", "dgx h200"),
    ),
    Gpu(
        name="H200 NVL",
        peak_tflops={"tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5},
        source="NVIDIA H200 data sheet (2024), NVL column, sparse numbers halved",
    ),
    Gpu(
        name="GH200",
        peak_tflops={"tf32": 494.5, "bf16": 990, "fp16": 990, "fp8": 1979},
        source="NVIDIA GH200 Grace Hopper Superchip data sheet (2023), sparse numbers halved",
        aliases=("gh200 480gb", "gh200 120gb", "gh200 144g hbm3e"),
    ),
    Gpu(
        name="H20",
        peak_tflops={"tf32": 74, "bf16": 148, "fp16": 148, "fp8": 296},
        source="NVIDIA H20 data sheet (2023), dense numbers",
        aliases=("h20 96gb", "h20 3e"),
    ),
    Gpu(
        name="L40S",
        peak_tflops={"tf32": 183, "bf16": 362.05, "fp16": 362.05, "fp8": 733},
        source="NVIDIA L40S data sheet (2023), dense column",
    ),
    Gpu(
        name="B200",
        peak_tflops={"tf32": 1125, "bf16": 2250, "fp16": 2250, "fp8": 4500, "nvfp4": 9000},
        source=f"{_DGXC}; TF32: NVIDIA HGX B200 data sheet (2024), 18 PFLOPS for 8 GPUs, sparse, halved",
        aliases=("b200 180gb hbm3e", "b200 sxm", "dgx b200"),
    ),
    Gpu(
        name="B300",
        peak_tflops={"tf32": 1125, "bf16": 2250, "fp16": 2250, "fp8": 4500, "nvfp4": 13500},
        source="NVIDIA HGX B300 data sheet (2025): 18, 36, 72 PFLOPS for 8 GPUs, sparse, halved; "
        "NVFP4: dgxc-benchmarking README (2026)",
        aliases=("b300 sxm6 ac", "b300 sxm", "dgx b300"),
    ),
    Gpu(
        name="GB200",
        peak_tflops={"tf32": 1225, "bf16": 2450, "fp16": 2450, "fp8": 4900, "nvfp4": 9800},
        source=_GB200,
        aliases=("gb200 nvl72", "gb200 186gb hbm3e", "dgx gb200"),
    ),
    Gpu(
        name="GB300",
        peak_tflops={"tf32": 1225, "bf16": 2450, "fp16": 2450, "fp8": 4900, "nvfp4": 14700},
        source="NVFP4: dgxc-benchmarking README (2026); the others as GB200, whose data sheet (2024) "
        "prints the same rates as that of the GB300 NVL72 (2025)",
        aliases=("gb300 nvl72", "gb300 288gb hbm3e", "dgx gb300"),
    ),
)


def normalised(name: str) -> str:
    """Returns a GPU's name as the table is looked up by: lower case, no vendor, single spaces."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return " ".join(word for word in words if word and word not in ("nvidia", "tesla"))


def _by_name() -> dict[str, Gpu]:
    known: dict[str, Gpu] = {}
    for gpu in _TABLE:
        for name in (normalised(gpu.name), *gpu.aliases):
            if name in known:
                raise ValueError(f"two GPUs are called {name!r}")
            known[name] = gpu
    return known


GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({gpu.name: gpu for gpu in _TABLE})
_GPUS_BY_NAME: Final[Mapping[str, Gpu]] = MappingProxyType(_by_name())


def find_gpu(name: str | None) -> Gpu | None:
    """Returns the GPU that a short name or the driver's name stands for, or None if it is not in the table.

    The whole normalised name must be known: "NVIDIA H100 PCIe" is not an H100 with something behind it.
    """
    return None if name is None else _GPUS_BY_NAME.get(normalised(name))


def canonical_precision(precision: str | None) -> str | None:
    """Returns the short name of a precision ("bf16-mixed" is "bf16"), lower case; None stays None."""
    if precision is None:
        return None
    lowered = precision.lower()
    return _PRECISION_NAMES.get(lowered, lowered)


@dataclass(frozen=True)
class Peak:
    """A dense peak in TFLOP/s and where it comes from; `tflops` is None where there is none, for `reason`."""

    tflops: float | None
    reason: str


def peak(gpu_model: str | None, precision: str | None) -> Peak:
    """Returns the dense peak of one GPU at a precision, or the reason why there is none."""
    short = canonical_precision(precision)
    if gpu_model is None:
        return Peak(None, "the GPU model is not known")
    gpu = find_gpu(gpu_model)
    if gpu is None:
        return Peak(None, f"no sourced peak for the GPU {gpu_model!r} (known: {', '.join(GPUS)})")
    if short is None:
        return Peak(None, "the precision is not known")
    tflops = gpu.peak_tflops.get(_SAME_PEAK.get(short, short))
    if tflops is None:
        return Peak(None, f"no sourced peak for {short} on {gpu.name} (known: {', '.join(gpu.peak_tflops)})")
    return Peak(tflops, gpu.source)
