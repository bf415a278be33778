"""A recipe's model in numbers, for FLOPs and records: the sizes that hold, whether set or by default."""

from __future__ import annotations

from collections.abc import Mapping

from cloudai_run.recipes.nemo.layout import Node
from cloudai_run.recipes.nemo.schema import Schema, Tree

SIZES = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "gated_linear_unit",
    "num_moe_experts",
    "moe_router_topk",
    "moe_ffn_hidden_size",
    "moe_layer_freq",
    "moe_shared_expert_intermediate_size",
    "multi_latent_attention",
)
# The rows of the output layer come from the tokenizer, which a recipe with mock data does not name. NeMo counts these,
# by family (LLM_VOCAB_SIZE_MAP in nemo/collections/common/parts/perf_metrics_utils.py, NeMo 2.7.3).
FAMILY_VOCAB_SIZES: Mapping[str, int] = {
    "gpt3": 51200,
    "llama2": 32000,
    "llama3": 128256,
    "mixtral": 32000,
    "nemotron": 256000,
}


def family(recipe: str) -> str | None:
    """Returns the family whose vocabulary a recipe's model has, None if it is not one of those known."""
    return next((name for name in FAMILY_VOCAB_SIZES if recipe.startswith(name)), None)


def shape(tree: Mapping[str, Tree], schema: Schema, recipe: str) -> dict[str, Tree] | None:
    """Returns the model's sizes under NeMo's names, with `name`, `family` and `vocab_size`.

    Returns:
        None for a model whose sizes or vocabulary are not known.
    """
    model = tree.get("model")
    config = model.get("config") if isinstance(model, dict) else None
    if not isinstance(config, dict):
        return None
    node = Node(config, schema)
    found = {name: _plain(node.value(name)) for name in SIZES}
    if not isinstance(found["num_layers"], int) or not isinstance(found["hidden_size"], int):
        return None
    if found["ffn_hidden_size"] is None:
        found["ffn_hidden_size"] = 4 * found["hidden_size"]
    of = family(recipe)
    found["vocab_size"] = node.number("vocab_size") or FAMILY_VOCAB_SIZES.get(of or "")
    if found["vocab_size"] is None:
        return None
    return {"name": recipe, "family": of, **found}


def _plain(value: object) -> Tree:
    """A size as it stands in JSON; a list says which layers have experts."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def precision(tree: Mapping[str, Tree]) -> str | None:
    """Returns `bf16`, `fp16`, `fp32` or `fp8`, from the trainer's precision plugin."""
    trainer = tree.get("trainer")
    plugin = trainer.get("plugins") if isinstance(trainer, dict) else None
    if isinstance(plugin, list):
        plugin = plugin[0] if plugin else None
    if not isinstance(plugin, dict):
        return None
    if plugin.get("fp8"):
        return "mxfp8" if plugin.get("fp8_recipe") == "mxfp8" else "fp8"
    name = str(plugin.get("precision"))
    return {"bf16-mixed": "bf16", "16-mixed": "fp16", "32": "fp32", "32-true": "fp32"}.get(name)
