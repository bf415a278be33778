"""The rules agree with Megatron Core's own checks, over many configurations drawn at random."""

# pyright: reportMissingImports=false
from __future__ import annotations

import random
from typing import Any

import pytest

from cloudai_run.recipes.nemo.rules import check
from cloudai_run.recipes.nemo.schema import Tree, load

# What Megatron's TransformerConfig checks by itself; the other rules need a world of ranks.
OF_CONFIG = {
    "heads",
    "query-groups",
    "pipeline-layers",
    "virtual-pipeline",
    "sequence-parallel",
    "recompute",
    "expert-parallel",
    "moe-sequence-parallel",
}


def draw(dice: random.Random) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """Returns settings of the strategy and of the model."""
    uneven = dice.random() < 0.3
    counted = dice.random() < (0.05 if uneven else 0.3)
    pipeline = dice.choice([1, 2, 3, 4])
    strategy: dict[str, Tree] = {
        "tensor_model_parallel_size": dice.choice([1, 2, 3, 4]),
        "pipeline_model_parallel_size": pipeline,
        "virtual_pipeline_model_parallel_size": dice.choice([None, None, 2, 3]) if pipeline > 1 else None,
        "context_parallel_size": 1,
        "sequence_parallel": dice.random() < 0.2,
        "expert_model_parallel_size": dice.choice([1, 1, 1, 2, 4]),
        "num_layers_in_first_pipeline_stage": dice.choice([None, 2, 4, 6])
        if uneven and pipeline > 1
        else None,
        "num_layers_in_last_pipeline_stage": dice.choice([None, 2, 4, 6])
        if uneven and pipeline > 1
        else None,
        "account_for_embedding_in_pipeline_split": counted and dice.random() < 0.7,
        "account_for_loss_in_pipeline_split": counted and dice.random() < 0.7,
    }
    groups = dice.choice([2, 4, 6])
    model: dict[str, Tree] = {
        "num_layers": dice.choice([12, 14, 16, 24, 25, 32]),
        "num_attention_heads": groups * dice.choice([1, 2, 4]),
        "num_query_groups": groups,
        "num_moe_experts": dice.choice([None, None, 4, 6]),
        "recompute_granularity": dice.choice([None, None, None, "full", "selective", "fulll"]),
        "recompute_method": dice.choice([None, "block", "blocks"]),
        "recompute_num_layers": dice.choice([None, 1]),
    }
    return strategy, model


def broken_rules(strategy: dict[str, Tree], model: dict[str, Tree]) -> set[str]:
    """Returns the names of the rules that these settings break, of those that Megatron's configuration checks."""
    schema = load()
    tree = schema.recipe_tree("llama3_8b")
    for node, settings in ((tree["trainer"], strategy), (tree["model"], model)):
        assert isinstance(node, dict)
        inner = node["strategy" if settings is strategy else "config"]
        assert isinstance(inner, dict)
        inner.update(settings)
    data = tree["data"]
    assert isinstance(data, dict)
    # All tensor parallel sizes divide this sequence length, and all parallel sizes these GPUs.
    data["seq_length"] = 9216
    return {violation.rule for violation in check(tree, schema, 2 * 3 * 16, 8)} & OF_CONFIG


def megatron_says(strategy: dict[str, Tree], model: dict[str, Tree]) -> str:
    """Returns Megatron's complaint about the settings, or ''; that it would build fewer layers counts as one."""
    import torch
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    from megatron.core.transformer.transformer_config import TransformerConfig

    dtypes = {"pipeline_dtype": torch.bfloat16, "params_dtype": torch.bfloat16}
    settings: dict[str, Any] = {**strategy, **model, **dtypes, "hidden_size": 96, "add_bias_linear": False}
    try:
        config = TransformerConfig(**settings)
        chunks = config.virtual_pipeline_model_parallel_size
        built = sum(
            get_num_layers_to_build(config, vp_stage=chunk, pp_rank=rank)
            for rank in range(config.pipeline_model_parallel_size)
            for chunk in (range(chunks) if chunks else [None])
        )
    except (ValueError, AssertionError, NameError) as error:
        # A NameError: Megatron 0.15 fails over its own warning about experts without sequence parallel.
        return str(error) or "assertion"
    # What only the layers check, when they are built and when they train.
    if config.num_moe_experts is not None:
        if config.num_moe_experts % config.expert_model_parallel_size:
            return "experts are not divided"
        if config.tensor_model_parallel_size > 1 and not config.sequence_parallel:
            return "experts without sequence parallel"
    return "" if built == config.num_layers else f"builds {built} layers of {config.num_layers}"


@pytest.mark.nemo
def test_rules_agree_with_megatron() -> None:
    dice = random.Random(7)
    refused = 0
    for _ in range(3000):
        strategy, model = draw(dice)
        said, rules = megatron_says(strategy, model), broken_rules(strategy, model)
        assert bool(rules) == bool(said), f"{rules} against {said!r} for {strategy} and {model}"
        refused += bool(said)
    assert 1000 < refused < 2900
