"""What a record and a report hold of a PAXML run: layout, batch, model, precision, flags."""

from __future__ import annotations

from cloudai_run.recipes.paxml import rules
from cloudai_run.recipes.paxml.settings import Place, Settings, flags_of, placed
from cloudai_run.recipes.paxml.tree import Json

# Experts that are active for a token: Grok's and GLaM's gate takes the best two (`moe_gating_func='top2'`).
ACTIVE_EXPERTS = 2


def facts(settings: Settings, num_nodes: int, num_gpus_per_node: int) -> dict[str, Json]:
    """Returns the fields of a run's record that follow from a recipe and its layout."""
    place = Place(num_nodes, num_gpus_per_node)
    final = placed(settings, place)
    steps, length, batch = (final.number(name) for name in ("max_steps", "max_seq_len", "percore_batch_size"))
    stages = ["profile", "perf"] if rules.profiles(final) else ["perf"]
    size = final.number("microbatch_size")
    return {
        "global_batch_size": round(batch * place.devices) if batch is not None else None,
        "micro_batch_size": int(size) if size is not None and final.number("num_stages") else None,
        "seq_length": int(length) if length is not None else None,
        "max_steps": int(steps) if steps is not None else None,
        "precision": precision(final),
        "model": model(final),
        "gpu_model": final.workload.gpu,
        "container_image": final.workload.container_image,
        "stages": [{"name": name, "framework": "paxml", "measured": name == "perf"} for name in stages],
        "xla_flags": {name: dict(flags_of(final, name, place.devices)) for name in stages},
    }


def precision(settings: Settings) -> str | None:
    """Returns `fp8`, `bf16` or `fp32`; None if the experiment class does not say."""
    if settings.knob("use_fp8") is True:
        return "fp8"
    dtype = settings.knob("fprop_dtype")
    return {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}.get(str(dtype))


def model(settings: Settings) -> dict[str, Json] | None:
    """Returns the model's shape for counting FLOPs, or None if a size is unknown."""
    sizes = {
        name: settings.number(name) for name in ("num_layers", "model_dims", "hidden_dims", "vocab_size")
    }
    heads, per_head = settings.number("num_heads"), settings.number("dims_per_head")
    layers, hidden, ffn, vocab = sizes.values()
    if layers is None or hidden is None or ffn is None or vocab is None:
        return None
    if heads is None and per_head:
        heads = hidden // per_head
    if heads is None:
        return None
    experts = settings.number("num_experts")
    groups = settings.number("num_kv_heads")
    return {
        "family": _family(settings),
        "name": settings.fdl_config.rpartition(".")[2],
        "num_layers": int(layers),
        "hidden_size": int(hidden),
        "ffn_hidden_size": int(ffn),
        "num_attention_heads": int(heads),
        "num_query_groups": int(groups or heads),
        "kv_channels": int(per_head or hidden // heads),
        "vocab_size": int(vocab),
        # Grok's and GLaM's layers are gated by their construction; the knob counts for the others.
        "gated_linear_unit": bool(experts) or settings.knob("use_gated_activation") is True,
        "num_moe_experts": int(experts) if experts else None,
        "moe_router_topk": ACTIVE_EXPERTS if experts else None,
    }


def _family(settings: Settings) -> str:
    name = settings.fdl_config.rpartition(".")[2].lower()
    for family in ("grok", "nemotron", "glam", "llama"):
        if family in name:
            return family
    return "gpt"
