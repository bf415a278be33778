"""Shapes and FLOPs against the installed NeMo's own classes and formulas."""

from __future__ import annotations

import importlib

import pytest

from cloudai_run.metrics.flops import flops_per_token
from cloudai_run.metrics.models import model_shape

pytestmark = pytest.mark.nemo

# Our name, NeMo's configuration class in nemo.collections.llm, NeMo's formula in nemo.utils.flops_formulas.
MODELS = [
    ("llama2_7b", "Llama2Config7B", "llama2"),
    ("llama2_13b", "Llama2Config13B", "llama2"),
    ("llama2_70b", "Llama2Config70B", "llama2"),
    ("llama3_8b", "Llama3Config8B", "llama3"),
    ("llama3_70b", "Llama3Config70B", "llama3"),
    ("llama31_8b", "Llama31Config8B", "llama3"),
    ("llama31_70b", "Llama31Config70B", "llama3"),
    ("llama31_405b", "Llama31Config405B", "llama3"),
    ("llama32_1b", "Llama32Config1B", "llama3"),
    ("llama32_3b", "Llama32Config3B", "llama3"),
    ("mixtral_8x7b", "MixtralConfig8x7B", "mixtral"),
    ("mixtral_8x22b", "MixtralConfig8x22B", "mixtral"),
    ("nemotron3_8b", "Nemotron3Config8B", "nemotron"),
    ("nemotron3_22b", "Nemotron3Config22B", "nemotron"),
    ("nemotron4_15b", "Nemotron4Config15B", "nemotron"),
    ("nemotron4_340b", "Nemotron4Config340B", "nemotron"),
    ("gpt3_126m", "GPTConfig126M", "gpt3"),
    ("gpt3_5b", "GPTConfig5B", "gpt3"),
    ("gpt3_20b", "GPTConfig20B", "gpt3"),
    ("gpt3_40b", "GPTConfig40B", "gpt3"),
    ("gpt3_175b", "GPTConfig175B", "gpt3"),
    ("qwen3_30b_a3b", "Qwen3Config30B_A3B", "qwen3"),
    ("qwen3_235b_a22b", "Qwen3Config235B_A22B", "qwen3"),
]


@pytest.mark.parametrize(("name", "config_class", "formula"), MODELS)
def test_shape_and_flops_are_those_of_nemo(name: str, config_class: str, formula: str) -> None:
    llm = importlib.import_module("nemo.collections.llm")
    flops_formulas = importlib.import_module("nemo.utils.flops_formulas")
    # The defaults are read from the class: an instance checks for fused kernels, which a CPU install lacks.
    config = getattr(llm, config_class)
    shape = model_shape(name)
    assert shape.num_layers == config.num_layers
    assert shape.hidden_size == config.hidden_size
    expert_width = getattr(config, "moe_ffn_hidden_size", None)
    assert shape.ffn_hidden_size == (expert_width or config.ffn_hidden_size)
    assert shape.num_attention_heads == config.num_attention_heads
    assert shape.num_query_groups == (config.num_query_groups or config.num_attention_heads)
    assert shape.kv_channels == (config.kv_channels or config.hidden_size // config.num_attention_heads)
    assert shape.gated_linear_unit == config.gated_linear_unit
    assert shape.num_moe_experts == config.num_moe_experts
    if shape.num_moe_experts is not None:
        assert shape.moe_router_topk == config.moe_router_topk
    seq_length = 4096
    theirs = getattr(flops_formulas, formula)(
        flops_formulas.FLOPSConfig(
            gbs=1,
            enc_seq_len=seq_length,
            hs=shape.hidden_size,
            layers=shape.num_layers,
            ffn_hs=shape.ffn_hidden_size,
            attention_heads=shape.num_attention_heads,
            query_groups=shape.num_query_groups,
            kv_channels=shape.kv_channels,
            moe_router_topk=shape.moe_router_topk,
            moe_ffn_hidden_size=shape.ffn_hidden_size,
            vocab_size=shape.vocab_size,
        )
    )
    assert flops_per_token(shape, seq_length) * seq_length == pytest.approx(theirs, rel=2e-3)
