"""Model FLOPs against numbers that others published or that can be worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.flops import Convention, ModelShape, flops_breakdown, flops_per_token
from cloudai_run.metrics.models import KNOWN_MODELS, model_shape

# TFLOP per token, forward and backward: (model, sequence, causal, non-causal), to five decimals.
PER_TOKEN = [
    ("llama3_8b", 8192, 0.05147, 0.05791),
    ("nemotron4_340b", 4096, 2.06131, 2.10479),
    ("grok1", 8192, 0.52184, 0.54117),
    ("gpt3_175b", 2048, 1.06195, 1.07644),
    ("llama3_70b", 8192, 0.44922, 0.48143),
    ("llama31_405b", 8192, 2.52396, 2.62542),
    ("nemotron4_15b", 4096, 0.08916, 0.09399),
]


@pytest.mark.parametrize(("model", "seq_length", "causal", "non_causal"), PER_TOKEN)
def test_tflop_per_token(model: str, seq_length: int, causal: float, non_causal: float) -> None:
    shape = model_shape(model)
    assert round(flops_per_token(shape, seq_length) / 1e12, 5) == causal
    assert round(flops_per_token(shape, seq_length, "causal") / 1e12, 5) == causal
    assert round(flops_per_token(shape, seq_length, "non_causal") / 1e12, 5) == non_causal


def test_flops_of_a_sequence() -> None:
    assert 8192 * flops_per_token(model_shape("llama3_8b"), 8192) == pytest.approx(4.2165e14, rel=1e-4)
    nemotron = model_shape("nemotron4_340b")
    assert 4096 * flops_per_token(nemotron, 4096) == pytest.approx(8.4431e15, rel=1e-4)
    assert 4096 * flops_per_token(nemotron, 4096, "non_causal") == pytest.approx(8.6212e15, rel=1e-4)
    assert 8192 * flops_per_token(model_shape("grok1"), 8192) == pytest.approx(4.2749e15, rel=1e-4)
    assert 2048 * flops_per_token(model_shape("gpt3_175b"), 2048) == pytest.approx(2.1749e15, rel=1e-4)


def test_published_breakdown_of_grok1() -> None:
    # NVIDIA's recipe for Grok-1 prints these three terms, for the vocabulary of Llama 3.
    shape = dataclasses.replace(model_shape("grok1"), vocab_size=128256)
    parts = flops_breakdown(shape, 8192)
    assert parts.attention_projections + parts.attention_scores == 53_150_220_288
    assert parts.mlp == 463_856_467_968
    assert parts.output_layer == 4_728_029_184


def test_mixtral_counts_only_the_experts_that_a_token_passes() -> None:
    mixtral = model_shape("mixtral_8x7b")
    dense = dataclasses.replace(mixtral, num_moe_experts=None, moe_router_topk=None)
    assert flops_breakdown(mixtral, 4096).mlp == 2 * flops_breakdown(dense, 4096).mlp


def test_shared_expert_and_expert_width() -> None:
    shape = dataclasses.replace(
        model_shape("mixtral_8x7b"), moe_ffn_hidden_size=1000, moe_shared_expert_intermediate_size=500
    )
    assert flops_breakdown(shape, 4096).mlp == 6 * 32 * 3 * 4096 * (2 * 1000 + 500)


def test_gate_is_a_third_matrix() -> None:
    gated = model_shape("llama3_8b")
    plain = dataclasses.replace(gated, gated_linear_unit=False)
    assert flops_breakdown(gated, 8192).mlp * 2 == flops_breakdown(plain, 8192).mlp * 3


def test_heads_wider_than_the_hidden_size() -> None:
    # Qwen3 30B-A3B: 32 heads of 128 in a hidden size of 2048.
    parts = flops_breakdown(model_shape("qwen3_30b_a3b"), 4096, "non_causal")
    assert parts.attention_projections == 6 * 48 * (2048 * (4096 + 2 * 512) + 4096 * 2048)
    assert parts.attention_scores == 6 * 48 * 2 * 4096 * 4096


@pytest.mark.parametrize("convention", ["causal", "non_causal"])
def test_attention_is_linear_in_the_sequence_per_token(convention: Convention) -> None:
    shape = model_shape("llama3_8b")
    short = flops_breakdown(shape, 4096, convention)
    long = flops_breakdown(shape, 8192, convention)
    assert long.attention_scores == 2 * short.attention_scores
    assert long.mlp == short.mlp


def test_known_models_hold_their_names_and_round_trip() -> None:
    for name, shape in KNOWN_MODELS.items():
        assert shape.name == name
        assert ModelShape.from_mapping(shape.to_mapping()) == shape


def test_from_mapping_fills_in_what_megatron_core_would() -> None:
    given = {
        "family": "gpt3",
        "num_layers": 2,
        "hidden_size": 64,
        "ffn_hidden_size": 256,
        "num_attention_heads": 4,
        "num_query_groups": None,
        "kv_channels": None,
        "vocab_size": 1000,
        "gated_linear_unit": False,
    }
    shape = ModelShape.from_mapping(given)
    assert (shape.name, shape.num_query_groups, shape.kv_channels) == ("gpt3", 4, 16)


BASE = model_shape("llama3_8b").to_mapping()
BAD_SHAPES = [
    (
        {**BASE, "num_layers": None},
        "llama3_8b: the model's shape needs num_layers as a whole number, got None",
    ),
    ({**BASE, "vocab_size": 1.5}, "llama3_8b: the model's shape needs vocab_size as a whole number, got 1.5"),
    (
        {**BASE, "gated_linear_unit": None},
        "llama3_8b: the model's shape needs gated_linear_unit (true or false), got None",
    ),
    ({**BASE, "hidden_size": -4}, "llama3_8b: hidden_size must be at least 1, and it is -4"),
    (
        {**BASE, "num_moe_experts": 8, "moe_router_topk": 9},
        "llama3_8b: with 8 experts moe_router_topk must lie between 1 and 8, and it is 9",
    ),
    (
        {**BASE, "num_moe_experts": 8},
        "llama3_8b: with 8 experts moe_router_topk must lie between 1 and 8, and it is None",
    ),
    (
        {**BASE, "multi_latent_attention": True},
        "llama3_8b: the FLOPs of multi-latent attention are not implemented",
    ),
    (
        {**BASE, "moe_layer_freq": 2},
        "llama3_8b: the FLOPs of a model with experts in some layers only are not implemented",
    ),
]


@pytest.mark.parametrize(("mapping", "message"), BAD_SHAPES)
def test_bad_shapes(mapping: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        ModelShape.from_mapping(mapping)
    assert str(caught.value) == message


def test_bad_sequence() -> None:
    with pytest.raises(UserError, match=r"^seq_length must be at least 1, and it is 0$"):
        flops_per_token(model_shape("llama3_8b"), 0)


def test_unknown_model_suggests() -> None:
    with pytest.raises(UserError) as caught:
        model_shape("lama3_8b")
    assert str(caught.value).splitlines()[0] == "the shape of the model 'lama3_8b' is not known"
    assert "did you mean llama3_8b" in str(caught.value)
