"""Model FLOPs of a decoder-only transformer, per token, from its shape.

Model FLOPs are the multiplications and additions that the mathematics of a training step needs (one
multiply-add counts as two), forward and backward, without what activation recomputation repeats. They
depend on one convention: whether the attention scores above the diagonal, which a causal model never
uses, are counted. "causal" leaves them out and is what NeMo (since commit 6251117f4c of 2025-08-09),
Megatron-LM (since 8873b55d6a of 2025-03-06) and MaxText (since pull request 1988 of 2025-07) count;
"non_causal" counts the full square, as those did before and as appendix B of the PaLM paper (2022) does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal

from cloudai_run.errors import UserError

Convention = Literal["causal", "non_causal"]
DEFAULT_CONVENTION: Final[Convention] = "causal"
CONVENTIONS: Final[tuple[Convention, ...]] = ("causal", "non_causal")

# The share of the sequence x sequence scores that is counted.
_ATTENTION_SHARE: Final[Mapping[Convention, float]] = {"causal": 0.5, "non_causal": 1.0}
# The backward pass takes the gradients of the inputs and of the weights: twice the forward pass.
_FORWARD_AND_BACKWARD: Final = 3
_MULTIPLY_ADD: Final = 2


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The sizes of a decoder-only transformer that its FLOPs depend on, under NeMo's names.

    Attributes:
        name: The recipe's name, for messages.
        num_layers: Transformer layers.
        hidden_size: Width of the residual stream.
        ffn_hidden_size: Inner width of the MLP (of each expert, unless `moe_ffn_hidden_size` is set).
        num_attention_heads: Query heads.
        num_query_groups: Key and value heads; equal to `num_attention_heads` without grouping.
        kv_channels: Width of one head; heads x kv_channels need not equal `hidden_size`.
        vocab_size: Rows of the output layer. Padding to a multiple, which Megatron-LM adds, is not counted.
        gated_linear_unit: Whether the MLP has a gate, so three matrices instead of two (SwiGLU).
        num_moe_experts: Experts of each layer; None for a dense model.
        moe_router_topk: Experts that one token passes; only these are counted.
        moe_ffn_hidden_size: Inner width of one expert; None means `ffn_hidden_size`.
        moe_shared_expert_intermediate_size: Inner width of the expert that every token passes, 0 if none.
    """

    name: str = "model"
    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    kv_channels: int
    vocab_size: int
    gated_linear_unit: bool
    num_moe_experts: int | None = None
    moe_router_topk: int | None = None
    moe_ffn_hidden_size: int | None = None
    moe_shared_expert_intermediate_size: int = 0

    def __post_init__(self) -> None:
        for size in _SIZES:
            if getattr(self, size) < 1:
                raise UserError(f"{self.name}: {size} must be at least 1, and it is {getattr(self, size)}")
        if self.num_moe_experts is not None and not 1 <= (self.moe_router_topk or 0) <= self.num_moe_experts:
            raise UserError(
                f"{self.name}: with {self.num_moe_experts} experts moe_router_topk must lie between 1 and "
                f"{self.num_moe_experts}, and it is {self.moe_router_topk}"
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> ModelShape:
        """Reads the `model` object of a run record.

        Keys that are no sizes are left alone; `num_query_groups` defaults to the heads and `kv_channels` to
        hidden_size / heads, as in Megatron Core.

        Raises:
            UserError: A size is missing or no whole number, or the model has a layer that the formula does
                not know (multi-latent attention, experts in some of the layers only).
        """
        name = str(values.get("name") or values.get("family") or "model")
        if values.get("multi_latent_attention"):
            raise UserError(f"{name}: the FLOPs of multi-latent attention are not implemented")
        if values.get("moe_layer_freq") not in (None, 1):
            raise UserError(
                f"{name}: the FLOPs of a model with experts in some layers only are not implemented"
            )
        heads = _whole_number(name, values, "num_attention_heads")
        hidden = _whole_number(name, values, "hidden_size")
        gated = values.get("gated_linear_unit")
        if not isinstance(gated, bool):
            raise UserError(
                f"{name}: the model's shape needs gated_linear_unit (true or false), got {gated!r}"
            )
        return cls(
            name=name,
            num_layers=_whole_number(name, values, "num_layers"),
            hidden_size=hidden,
            ffn_hidden_size=_whole_number(name, values, "ffn_hidden_size"),
            num_attention_heads=heads,
            num_query_groups=_optional(name, values, "num_query_groups") or heads,
            kv_channels=_optional(name, values, "kv_channels") or hidden // heads,
            vocab_size=_whole_number(name, values, "vocab_size"),
            gated_linear_unit=gated,
            num_moe_experts=_optional(name, values, "num_moe_experts"),
            moe_router_topk=_optional(name, values, "moe_router_topk"),
            moe_ffn_hidden_size=_optional(name, values, "moe_ffn_hidden_size"),
            moe_shared_expert_intermediate_size=_optional(name, values, "moe_shared_expert_intermediate_size")
            or 0,
        )

    def to_mapping(self) -> dict[str, str | int | bool | None]:
        """Returns the shape as JSON-ready values, the inverse of `from_mapping`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_SIZES: Final = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "vocab_size",
)


def _whole_number(name: str, values: Mapping[str, object], key: str) -> int:
    value = values.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{name}: the model's shape needs {key} as a whole number, got {value!r}")
    return value


def _optional(name: str, values: Mapping[str, object], key: str) -> int | None:
    return None if values.get(key) is None else _whole_number(name, values, key)


@dataclass(frozen=True, kw_only=True)
class FlopsPerToken:
    """FLOPs of one token, forward and backward, by part of the model; `total` is their sum."""

    attention_projections: int
    attention_scores: float
    mlp: int
    output_layer: int

    @property
    def total(self) -> float:
        return self.attention_projections + self.attention_scores + self.mlp + self.output_layer


def flops_breakdown(
    shape: ModelShape, seq_length: int, convention: Convention = DEFAULT_CONVENTION
) -> FlopsPerToken:
    """Returns the model FLOPs of one token, forward and backward, by part.

    Per layer and token, forward: projections 2*h*(q + 2k) + 2*q*h with q = heads x kv_channels and
    k = groups x kv_channels; scores and their product with the values 4*s*q times the counted share;
    MLP 2*m*h*f with m = 3 matrices if gated, else 2, times the experts that a token passes. Once:
    the output layer 2*h*V. The router of a mixture of experts, norms, biases and the input embedding (a
    lookup) are not counted, as in Megatron-LM.
    """
    if seq_length < 1:
        raise UserError(f"seq_length must be at least 1, and it is {seq_length}")
    query = shape.num_attention_heads * shape.kv_channels
    key = shape.num_query_groups * shape.kv_channels
    factor = _FORWARD_AND_BACKWARD * _MULTIPLY_ADD
    projections = shape.hidden_size * (query + 2 * key) + query * shape.hidden_size
    scores = 2 * seq_length * query * _ATTENTION_SHARE[convention]
    return FlopsPerToken(
        attention_projections=factor * shape.num_layers * projections,
        attention_scores=factor * shape.num_layers * scores,
        mlp=factor * shape.num_layers * _mlp_weights_per_token(shape),
        output_layer=factor * shape.hidden_size * shape.vocab_size,
    )


def flops_per_token(shape: ModelShape, seq_length: int, convention: Convention = DEFAULT_CONVENTION) -> float:
    """Returns the model FLOPs of one token, forward and backward (see `flops_breakdown`)."""
    return flops_breakdown(shape, seq_length, convention).total


def _mlp_weights_per_token(shape: ModelShape) -> int:
    matrices = 3 if shape.gated_linear_unit else 2
    if shape.num_moe_experts is None:
        return matrices * shape.hidden_size * shape.ffn_hidden_size
    expert_width = shape.moe_ffn_hidden_size or shape.ffn_hidden_size
    active = (shape.moe_router_topk or 0) * expert_width + shape.moe_shared_expert_intermediate_size
    return matrices * shape.hidden_size * active
