"""Rules about the model's shape and its numerics.

Read in Megatron Core 0.15 (transformer/attention.py; tensor_parallel/layers.py; transformer_config.py,
`__post_init__`; fp8_utils.py) and Transformer Engine 2.x (`assert_dim_for_fp8_exec`), December 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cloudai_run.recipes.nemo.layout import Layout, Violation

# Fields of NeMo 2.7.3's ParallelismConfig (lightning/pytorch/strategies/megatron_strategy.py) and DtypeConfig
# (lightning/pytorch/plugins/mixed_precision.py) that the model's configuration has too.
_OF_STRATEGY = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "context_parallel_size",
    "sequence_parallel",
    "expert_model_parallel_size",
    "num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "microbatch_group_size_per_vp_stage",
)
_OF_PLUGIN = (
    "fp8",
    "fp8_recipe",
    "fp8_margin",
    "fp8_amax_history_len",
    "fp8_amax_compute_algo",
    "fp8_wgrad",
    "fp8_dot_product_attention",
    "fp8_multi_head_attention",
    "fp4",
    "fp4_recipe",
    "first_last_layers_bf16",
)


def _tensor_parallel(layout: Layout) -> Iterator[Violation]:
    model, size = layout.model, layout.tensor
    heads, groups = model.number("num_attention_heads"), model.number("num_query_groups")
    # State space models have no attention heads to split, whatever their configuration says.
    if not model.is_a("SSMConfig"):
        if heads is not None and heads % size:
            yield _undivided("heads", "attention heads", size, heads)
        elif groups is not None and groups % size:
            yield _undivided("query-groups", "query groups", size, groups)
    ffn = model.number("ffn_hidden_size")
    if ffn is not None and ffn % size and model.number("num_moe_experts") is None:
        yield _undivided("ffn", "feed-forward size", size, ffn)


def _undivided(rule: str, what: str, size: int, number: int) -> Violation:
    message = f"tensor parallel size must divide the {what}: {size} does not divide {number}"
    return Violation(rule, message)


def _positions(layout: Layout) -> Iterator[Violation]:
    length, positions = layout.data.number("seq_length"), layout.model.number("seq_length")
    learned = layout.model.value("position_embedding_type") == "learned_absolute"
    if learned and length is not None and positions is not None and length > positions:
        yield Violation(
            "positions",
            "a model with learned positions takes no longer sequence than model.config.seq_length: "
            f"data.seq_length {length} > {positions}",
        )


def _recompute(layout: Layout) -> Iterator[Violation]:
    model = layout.model
    how, method = model.value("recompute_granularity"), model.value("recompute_method")
    layers = model.number("recompute_num_layers")
    if how is None:
        return
    said = f"recompute_granularity {how!r}, recompute_method {method!r}, recompute_num_layers {layers}"
    if how not in ("full", "selective"):
        wrong = "model.config.recompute_granularity must be 'full' or 'selective'"
    elif method not in (None, "block", "uniform"):
        wrong = "model.config.recompute_method must be 'block' or 'uniform'"
    elif how == "full" and (method is None or layers is None):
        wrong = "full recomputation needs recompute_method and recompute_num_layers"
    elif how == "selective" and layers is not None:
        wrong = "selective recomputation takes no recompute_num_layers"
    else:
        return
    yield Violation("recompute", f"{wrong}: {said}")


def _fp8(layout: Layout) -> Iterator[Violation]:
    kind, model = layout.plugins.value("fp8"), layout.model
    if not kind:
        return
    if kind not in ("e4m3", "hybrid"):
        yield Violation("fp8", f"trainer.plugins.fp8 must be 'e4m3' or 'hybrid', it is {kind!r}")
    # FP8 matrix products want the last dimension of each operand divisible by 16.
    for name, split in (("hidden_size", 1), ("ffn_hidden_size", layout.tensor)):
        number = model.number(name)
        if number is not None and number % split == 0 and number // split % 16:
            part = f"{number} / {split} = {number // split}" if split > 1 else f"{number}"
            yield Violation(
                "fp8", f"with FP8, model.config.{name} on one GPU must be divisible by 16: {part} is not"
            )


def _overwritten(layout: Layout) -> Iterator[Violation]:
    """Settings that have no effect, since NeMo overwrites them with another node's when it starts."""
    pairs = [("trainer.strategy", layout.strategy, name) for name in _OF_STRATEGY]
    if layout.plugins.is_a("MegatronMixedPrecision"):
        pairs += [("trainer.plugins", layout.plugins, name) for name in _OF_PLUGIN]
    for path, winner, name in pairs:
        wanted, holds = layout.model.tree.get(name), winner.value(name)
        if name in layout.model.tree and wanted != holds:
            yield Violation(
                "overwritten",
                f"model.config.{name} has no effect, it is overwritten with {path}.{name}: "
                f"{wanted!r} against {holds!r}",
            )


MODEL_RULES: tuple[Callable[[Layout], Iterator[Violation]], ...] = (
    _tensor_parallel,
    _positions,
    _recompute,
    _fp8,
    _overwritten,
)
