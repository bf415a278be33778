"""Peaks are found by the whole name or not at all, and each number has a source."""

from __future__ import annotations

import itertools

import pytest

from cloudai_run.metrics.gpus import GPUS, canonical_precision, find_gpu, normalised, peak


@pytest.mark.parametrize(
    ("driver_name", "gpu"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("H100", "H100"),
        ("h100", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB300", "GB300"),
        ("DGX-GB200", "GB200"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_found_by_short_and_driver_name(driver_name: str, gpu: str) -> None:
    found = find_gpu(driver_name)
    assert found is not None
    assert found.name == gpu


@pytest.mark.parametrize("name", ["NVIDIA H100 Foo", "H1000", "B2000", "L40", "GB", "", "NVIDIA", "Tesla T4"])
def test_a_part_of_a_name_is_not_enough(name: str) -> None:
    assert find_gpu(name) is None


def test_no_name_no_gpu() -> None:
    assert find_gpu(None) is None


@pytest.mark.parametrize(
    ("gpu", "precision", "tflops"),
    [
        ("H100", "bf16", 989),
        ("H100", "bf16-mixed", 989),
        ("H100", "fp8", 1979),
        ("H100", "FP8-CS", 1979),
        ("B200", "bf16", 2250),
        ("B200", "fp8", 4500),
        ("B200", "mxfp8", 4500),
        ("B200", "nvfp4", 9000),
        ("GB200", "bf16", 2450),
        ("GB200", "fp8", 4900),
        ("GB200", "nvfp4", 9800),
        ("B300", "nvfp4", 13500),
        ("GB300", "nvfp4", 14700),
        ("A100", "bf16", 312),
    ],
)
def test_peaks(gpu: str, precision: str, tflops: float) -> None:
    found = peak(gpu, precision)
    assert found.tflops == tflops
    assert found.reason == GPUS[gpu].source


def test_no_peak_says_why() -> None:
    assert peak(None, "bf16").reason == "the GPU model is not known"
    assert peak("H100", None).reason == "the precision is not known"
    assert peak("Tesla T4", "fp16").reason.startswith("no sourced peak for the GPU 'Tesla T4' (known: A100, ")
    assert peak("A100", "fp8").reason == "no sourced peak for fp8 on A100 (known: tf32, bf16, fp16)"
    assert peak("H100", "nvfp4").tflops is None
    assert peak("H100", "fp32").tflops is None


def test_each_gpu_has_a_source_with_a_year_and_rising_peaks() -> None:
    for gpu in GPUS.values():
        assert "20" in gpu.source, gpu.name
        known = [
            gpu.peak_tflops[name] for name in ("tf32", "bf16", "fp8", "nvfp4") if name in gpu.peak_tflops
        ]
        assert known == sorted(known), gpu.name
        assert gpu.peak_tflops["bf16"] == gpu.peak_tflops["fp16"]
        # Sparse numbers copied by mistake would make one format four times the next.
        assert all(1.4 < high / low < 3.5 for low, high in itertools.pairwise(known)), gpu.name


def test_aliases_are_in_normal_form() -> None:
    for gpu in GPUS.values():
        for alias in gpu.aliases:
            assert normalised(alias) == alias


def test_precisions() -> None:
    assert canonical_precision(None) is None
    assert canonical_precision("bf16-mixed") == "bf16"
    assert canonical_precision("FP8-MX") == "mxfp8"
    assert canonical_precision("bfloat16") == "bf16"
    assert canonical_precision("nvfp4") == "nvfp4"
