"""The published rows against our formula, and which of them a run may be compared with."""

from __future__ import annotations

import dataclasses

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.flops import flops_per_token
from cloudai_run.metrics.gpus import GPUS, peak
from cloudai_run.metrics.models import model_shape
from cloudai_run.metrics.published import (
    PublishedRow,
    match_published,
    published_lines,
    published_rows,
    published_sources,
)
from cloudai_run.metrics.run_data import RunData, Side
from cloudai_run.metrics.throughput import RunShape

ROWS = published_rows()
# (source, model, GPUs, tokens/s/GPU, TFLOP/s/GPU, convention): rows that were found to be consistent when the
# table was collected; typed in here once more, so that a slip in the data file shows.
CONSISTENT = [
    ("nemo-24.07", "gpt3_175b", 128, 716, 771, "non_causal"),
    ("nemo-24.07", "gpt3_175b", 512, 825, 888, "non_causal"),
    ("nemo-24.07", "nemotron4_340b", 128, 326, 686, "non_causal"),
    ("nemo-24.07", "llama3_8b", 8, 12273, 711, "non_causal"),
    ("nemo-24.07", "llama3_70b", 64, 1524, 734, "non_causal"),
    ("megatron-bridge-25.11", "llama3_8b", 8, 14451, 744, "causal"),
    ("megatron-bridge-25.11", "llama3_70b", 64, 1602, 719, "causal"),
    ("megatron-bridge-25.11", "llama31_405b", 1024, 292, 737, "causal"),
]


def our_tflops(row: PublishedRow) -> float:
    assert row.convention is not None
    tokens_per_s_per_gpu = row.values()["tokens_per_s_per_gpu"]
    return tokens_per_s_per_gpu * flops_per_token(row.shape, row.seq_length, row.convention) / 1e12


@pytest.mark.parametrize(("source", "model", "num_gpus", "tokens", "tflops", "convention"), CONSISTENT)
def test_consistent_rows_within_two_per_mille(
    source: str, model: str, num_gpus: int, tokens: float, tflops: float, convention: str
) -> None:
    found = [
        row
        for row in ROWS
        if (row.source, row.model, row.num_gpus, row.gpu) == (source, model, num_gpus, "H100")
    ]
    assert len(found) == 1
    row = found[0]
    assert (row.tokens_per_s_per_gpu, row.tflops_per_gpu, row.convention) == (tokens, tflops, convention)
    assert row.checked
    assert our_tflops(row) == pytest.approx(tflops, rel=2e-3)


@pytest.mark.parametrize("row", [row for row in ROWS if row.checked], ids=PublishedRow.title)
def test_every_checked_row_within_two_per_mille(row: PublishedRow) -> None:
    published = row.tflops_per_gpu
    if published is None:
        dense = peak(row.gpu, row.precision).tflops
        assert row.mfu is not None
        assert dense is not None
        published = row.mfu * dense
    assert our_tflops(row) == pytest.approx(published, rel=2e-3)


def test_most_rows_are_checked_and_the_others_say_why_or_miss_by_rounding() -> None:
    assert len(ROWS) == 190
    assert sum(row.checked for row in ROWS) >= 138
    for row in ROWS:
        if row.checked or row.note:
            continue
        # Three published digits of MFU or TFLOP/s: half a unit of the last one on top of 0.2 %.
        dense = peak(row.gpu, row.precision).tflops
        assert dense is not None
        published = row.tflops_per_gpu if row.tflops_per_gpu is not None else (row.mfu or 0) * dense
        assert our_tflops(row) == pytest.approx(published, rel=4e-3), row.title()


def test_step_time_and_tokens_per_second_agree_in_each_row_that_has_both() -> None:
    both = [row for row in ROWS if row.step_time_s is not None and row.tokens_per_s is not None]
    assert len(both) > 80
    for row in both:
        assert row.step_time_s is not None
        assert row.tokens_per_s is not None
        digits = len(str(row.step_time_s).partition(".")[2])
        rounding = 0.5 * 10**-digits / row.step_time_s
        tokens = row.global_batch_size * row.seq_length / row.step_time_s
        assert row.tokens_per_s == pytest.approx(tokens, rel=rounding + 1e-5), row.title()


def test_every_row_names_a_source_a_model_and_a_gpu_that_are_known() -> None:
    for row in ROWS:
        assert row.source in published_sources()
        assert row.gpu in GPUS
        assert model_shape(row.model)
        assert peak(row.gpu, row.precision).tflops is not None


def run(**changes: object) -> RunData:
    shape = RunShape(
        global_batch_size=128,
        seq_length=8192,
        num_gpus=8,
        model=model_shape("llama3_8b"),
        gpu_model="NVIDIA H100 80GB HBM3",
        precision="fp8",
    )
    return RunData(
        label="run1",
        smoke=False,
        status="valid",
        step_time_s=(10.0,) * 10,
        values={"step_time_s": 10.0, "tokens_per_s_per_gpu": 13107.2, "tflops_per_gpu": 674.6},
        shape=dataclasses.replace(shape, **changes),
        facts=RunFacts(record={}),
    )


def test_only_rows_of_the_same_kind_match() -> None:
    match = match_published(run())
    assert {row.source for row in match.rows} == {
        "nemo-24.07",
        "megatron-bridge-25.09",
        "megatron-bridge-25.11",
        "dgxc-llama31-8b",
    }
    for row in match.rows:
        assert (row.gpu, row.num_gpus, row.precision) == ("H100", 8, "fp8")
        assert (row.global_batch_size, row.seq_length) == (128, 8192)
    assert all(off for _, off in match.nearest)


@pytest.mark.parametrize(
    ("changes", "mismatch"),
    [
        ({"gpu_model": "H200"}, "GPU H100 (the run: H200)"),
        ({"gpu_model": None}, "GPU H100 (the run: not known)"),
        ({"num_gpus": 24}, "GPUs 8 (the run: 24)"),
        ({"global_batch_size": 127}, "global batch 128 (the run: 127)"),
        ({"seq_length": 4096}, "sequence 8192 (the run: 4096)"),
        ({"precision": "fp16"}, "precision fp8 (the run: fp16)"),
    ],
)
def test_what_does_not_match_is_said(changes: dict[str, object], mismatch: str) -> None:
    match = match_published(run(**changes))
    assert match.rows == ()
    assert len(match.nearest) == 3
    assert any(mismatch in off for _, off in match.nearest)


def test_a_model_with_another_number_of_layers_matches_nothing() -> None:
    shape = dataclasses.replace(model_shape("llama3_8b"), num_layers=16)
    match = match_published(run(model=shape))
    assert (match.rows, match.nearest) == ((), ())


def test_vocabulary_does_not_hinder_a_match() -> None:
    shape = dataclasses.replace(model_shape("llama3_8b"), vocab_size=128512)
    assert match_published(run(model=shape)).rows


def test_lines_hold_flops_in_the_convention_of_the_row() -> None:
    side = Side(name="A", runs=(run(),))
    rows = {row.source: row for row in match_published(run()).rows}
    bridge = {line.metric: line for line in published_lines(rows["megatron-bridge-25.11"], side)}
    assert bridge["tflops_per_gpu"].change == pytest.approx(674.6 / 744 - 1)
    assert bridge["tokens_per_s_per_gpu"].change == pytest.approx(13107.2 / 14451 - 1)
    assert bridge["step_time_s"].change == pytest.approx(14451 / 13107.2 - 1)
    # The older table counts attention in full, and this run has no such number.
    assert "tflops_per_gpu" not in {line.metric for line in published_lines(rows["nemo-24.07"], side)}


def test_smoke_runs_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        match_published(dataclasses.replace(run(), smoke=True))
    assert str(caught.value) == (
        "run1 is a CPU smoke run: not a benchmark, "
        "so it takes no part in a comparison with published numbers\n"
        "  compare it without, or launch a full run"
    )


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        match_published(run(model=None))
    assert str(caught.value) == (
        "run1: the model's shape is not known, so no published row can be found\n"
        "  name the model: --model llama3_8b"
    )
