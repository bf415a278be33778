"""The rules that a recipe's numbers must obey, checked before anything is launched.

Each stands for a check that would fail on the cluster, minutes after the job has started, or for a setting
that NeMo would drop with a warning. The rules themselves stand in `rules_parallel` and `rules_model`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cloudai_run.recipes.nemo.layout import Layout, Violation, read_layout
from cloudai_run.recipes.nemo.rules_model import MODEL_RULES
from cloudai_run.recipes.nemo.rules_parallel import PARALLEL_RULES

if TYPE_CHECKING:
    from cloudai_run.recipes.nemo.schema import Schema

__all__ = ["Violation", "check"]

_MODEL_SIZES = ("num_layers", "hidden_size", "num_attention_heads", "num_moe_experts", "seq_length")
_DATA_SIZES = ("global_batch_size", "micro_batch_size", "seq_length")


def check(
    tree: Mapping[str, object], schema: Schema, num_nodes: int, num_gpus_per_node: int
) -> list[Violation]:
    """Returns the rules that a recipe's final tree breaks on that many GPUs.

    A recipe whose strategy is not Megatron's obeys other rules and is not checked.
    """
    layout = read_layout(tree, schema, num_nodes, num_gpus_per_node)
    if layout is None:
        return []
    # Sizes below one would only make the other rules divide by zero.
    broken = list(_sizes(layout))
    return broken or [violation for rule in (*PARALLEL_RULES, *MODEL_RULES) for violation in rule(layout)]


def _sizes(layout: Layout) -> Iterator[Violation]:
    strategy = "trainer.strategy"
    named = {
        "the number of nodes": layout.num_nodes,
        "the number of GPUs per node": layout.num_gpus_per_node,
        f"{strategy}.tensor_model_parallel_size": layout.tensor,
        f"{strategy}.pipeline_model_parallel_size": layout.pipeline,
        f"{strategy}.virtual_pipeline_model_parallel_size": layout.virtual,
        f"{strategy}.context_parallel_size": layout.context,
        f"{strategy}.expert_model_parallel_size": layout.expert,
        f"{strategy}.expert_tensor_parallel_size": layout.strategy.number("expert_tensor_parallel_size"),
        **{f"data.{name}": layout.data.number(name) for name in _DATA_SIZES},
        **{f"model.config.{name}": layout.model.number(name) for name in _MODEL_SIZES},
    }
    for name, size in named.items():
        if size is not None and size < 1:
            yield Violation("positive-sizes", f"{name} must be at least 1, it is {size}")
