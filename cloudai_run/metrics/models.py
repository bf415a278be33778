"""The shapes of known models, for logs of runs that this tool did not launch (`--model llama3_8b`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cloudai_run.errors import UserError
from cloudai_run.metrics.flops import ModelShape
from cloudai_run.recipes.suggest import did_you_mean


def _llama(layers: int, hidden: int, ffn: int, heads: int, groups: int, vocab: int) -> ModelShape:
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=ffn,
        num_attention_heads=heads,
        num_query_groups=groups,
        kv_channels=hidden // heads,
        vocab_size=vocab,
        gated_linear_unit=True,
    )


def _ungated(layers: int, hidden: int, heads: int, groups: int, vocab: int) -> ModelShape:
    """An MLP of two matrices and four times the hidden size (GPT-3, Nemotron)."""
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=4 * hidden,
        num_attention_heads=heads,
        num_query_groups=groups,
        kv_channels=hidden // heads,
        vocab_size=vocab,
        gated_linear_unit=False,
    )


def _experts(
    layers: int,
    hidden: int,
    ffn: int,
    heads: int,
    groups: int,
    vocab: int,
    *,
    experts: int,
    topk: int,
    head: int,
) -> ModelShape:
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=ffn,
        num_attention_heads=heads,
        num_query_groups=groups,
        kv_channels=head,
        vocab_size=vocab,
        gated_linear_unit=True,
        num_moe_experts=experts,
        moe_router_topk=topk,
    )


# Sources, read in 2026: NeMo 2.7.3 nemo/collections/llm/gpt/model/{llama,gpt,nemotron,mixtral,qwen3}.py, with
# the vocabularies that nemo/utils/flops_formulas.py counts (gpt3 51200, llama2 and mixtral 32000, llama3
# 128256, nemotron 256000); NVIDIA dgxc-benchmarking nemotron/ and paxml/; xai-org/grok-1 run.py for grok1;
# arXiv 2005.14165 table 2.1 for the sizes of GPT-3.
_UNNAMED: Final[Mapping[str, ModelShape]] = {
    "llama2_7b": _llama(32, 4096, 11008, 32, 32, 32000),
    "llama2_13b": _llama(40, 5120, 13824, 40, 40, 32000),
    "llama2_70b": _llama(80, 8192, 28672, 64, 8, 32000),
    "llama3_8b": _llama(32, 4096, 14336, 32, 8, 128256),
    "llama3_70b": _llama(80, 8192, 28672, 64, 8, 128256),
    "llama31_8b": _llama(32, 4096, 14336, 32, 8, 128256),
    "llama31_70b": _llama(80, 8192, 28672, 64, 8, 128256),
    "llama31_405b": _llama(126, 16384, 53248, 128, 8, 128256),
    "llama32_1b": _llama(16, 2048, 8192, 32, 8, 128256),
    "llama32_3b": _llama(28, 3072, 8192, 24, 8, 128256),
    "mixtral_8x7b": _experts(32, 4096, 14336, 32, 8, 32000, experts=8, topk=2, head=128),
    "mixtral_8x22b": _experts(56, 6144, 16384, 48, 8, 32000, experts=8, topk=2, head=128),
    "grok1": _experts(64, 6144, 32768, 48, 8, 131072, experts=8, topk=2, head=128),
    "qwen3_30b_a3b": _experts(48, 2048, 768, 32, 4, 151936, experts=128, topk=8, head=128),
    "qwen3_235b_a22b": _experts(94, 4096, 1536, 64, 4, 151936, experts=128, topk=8, head=128),
    "nemotron3_8b": _ungated(32, 4096, 32, 32, 256000),
    "nemotron3_22b": _ungated(40, 6144, 48, 48, 256000),
    "nemotron4_15b": _ungated(32, 6144, 48, 8, 256000),
    "nemotron4_340b": _ungated(96, 18432, 96, 8, 256000),
    "gpt3_126m": _ungated(12, 768, 12, 12, 51200),
    "gpt3_5b": _ungated(24, 4096, 32, 32, 51200),
    "gpt3_20b": _ungated(44, 6144, 48, 48, 51200),
    "gpt3_40b": _ungated(48, 8192, 64, 64, 51200),
    "gpt3_175b": _ungated(96, 12288, 96, 96, 51200),
}


def _named(name: str, shape: ModelShape) -> ModelShape:
    return ModelShape.from_mapping({**shape.to_mapping(), "name": name})


KNOWN_MODELS: Final[Mapping[str, ModelShape]] = MappingProxyType(
    {name: _named(name, shape) for name, shape in _UNNAMED.items()}
)


def model_shape(name: str) -> ModelShape:
    """Returns the shape of a known model.

    Raises:
        UserError: There is no such model.
    """
    shape = KNOWN_MODELS.get(name)
    if shape is None:
        near = did_you_mean(name, KNOWN_MODELS)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(KNOWN_MODELS))}"
        raise UserError(f"the shape of the model {name!r} is not known\n  {hint}")
    return shape
