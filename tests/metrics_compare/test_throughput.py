"""Throughput, FLOPs and utilisation from a step time."""

from __future__ import annotations

import pytest

from cloudai_run.metrics.models import model_shape
from cloudai_run.metrics.throughput import RunShape, check_framework_tflops, throughput

# A published row: Llama 3 8B on 8 H100 in FP8, 128 sequences of 8192: 12273 tokens/s/GPU and 711 TFLOP/s/GPU,
# attention counted in full.
LLAMA = RunShape(
    global_batch_size=128,
    seq_length=8192,
    num_gpus=8,
    model=model_shape("llama3_8b"),
    gpu_model="NVIDIA H100 80GB HBM3",
    precision="fp8",
)
STEP_TIME_S = 128 * 8192 / 8 / 12273


def test_all_metrics_of_a_published_run() -> None:
    found = throughput(STEP_TIME_S, LLAMA)
    assert found.tokens_per_s_per_gpu == pytest.approx(12273)
    assert found.tokens_per_s == pytest.approx(8 * 12273)
    assert found.samples_per_s == pytest.approx(8 * 12273 / 8192)
    assert found.days_to_1t_tokens == pytest.approx(1e12 / (8 * 12273) / 86400)
    assert found.tflops_per_gpu["non_causal"] == pytest.approx(711, rel=1e-3)
    assert found.tflops_per_gpu["causal"] == pytest.approx(631.7, rel=1e-3)
    assert found.mfu["non_causal"] == pytest.approx(711 / 1979, rel=1e-3)
    assert found.mfu["causal"] == pytest.approx(631.7 / 1979, rel=1e-3)
    assert found.peak_tflops == 1979
    assert found.missing == {}


def test_conventions_differ_by_an_eighth() -> None:
    found = throughput(1.0, LLAMA)
    causal, full = found.tflops_per_gpu["causal"], found.tflops_per_gpu["non_causal"]
    assert causal is not None
    assert full is not None
    assert full / causal == pytest.approx(1.125, abs=1e-3)


def test_missing_is_none_and_says_why() -> None:
    found = throughput(1.0, RunShape())
    assert found.tokens_per_s is None
    assert found.samples_per_s is None
    assert found.tokens_per_s_per_gpu is None
    assert found.days_to_1t_tokens is None
    assert found.tflops_per_gpu == {"causal": None, "non_causal": None}
    assert found.mfu == {"causal": None, "non_causal": None}
    assert found.missing == {
        "tokens_per_s": "global_batch_size and seq_length are not known",
        "days_to_1t_tokens": "global_batch_size and seq_length are not known",
        "samples_per_s": "global_batch_size is not known",
        "tokens_per_s_per_gpu": "global_batch_size and seq_length and num_gpus are not known",
        "tflops_per_gpu": "global_batch_size and seq_length and num_gpus are not known",
        "mfu": "global_batch_size and seq_length and num_gpus are not known",
    }


def test_an_unknown_gpu_has_no_mfu_and_a_word_why() -> None:
    found = throughput(1.0, RunShape(**{**LLAMA.__dict__, "gpu_model": "Tesla T4"}))
    assert found.tflops_per_gpu["causal"] is not None
    assert found.mfu == {"causal": None, "non_causal": None}
    assert found.missing["mfu"].startswith("no sourced peak for the GPU 'Tesla T4'")


def test_no_model_no_flops() -> None:
    found = throughput(1.0, RunShape(global_batch_size=1, seq_length=2, num_gpus=1))
    assert found.tokens_per_s_per_gpu == 2
    assert found.missing == {
        "tflops_per_gpu": "the model's shape is not known",
        "mfu": "the model's shape is not known",
    }


def test_framework_line_that_agrees() -> None:
    check = check_framework_tflops(631.0, throughput(STEP_TIME_S, LLAMA).tflops_per_gpu)
    assert check is not None
    assert not check.flagged
    assert check.message is None


def test_framework_line_in_the_other_convention_is_flagged_and_named() -> None:
    check = check_framework_tflops(711.0, throughput(STEP_TIME_S, LLAMA).tflops_per_gpu)
    assert check is not None
    assert check.flagged
    assert check.nearest == "non_causal"
    assert check.message == (
        "the framework says 711 TFLOP/s/GPU, +12.6% against ours (631.7, causal); "
        "it fits the non_causal convention (710.8)"
    )


def test_framework_line_that_fits_neither() -> None:
    check = check_framework_tflops(500.0, throughput(STEP_TIME_S, LLAMA).tflops_per_gpu)
    assert check is not None
    assert check.message == "the framework says 500 TFLOP/s/GPU, -20.8% against ours (631.7, causal)"


@pytest.mark.parametrize("value", [None, 0.0])
def test_framework_zero_means_not_known(value: float | None) -> None:
    assert check_framework_tflops(value, {"causal": 1.0, "non_causal": 2.0}) is None


def test_no_own_flops_no_check() -> None:
    assert check_framework_tflops(700.0, {"causal": None, "non_causal": None}) is None
