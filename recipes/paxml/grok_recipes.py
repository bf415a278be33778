"""Grok-1: all 64 layers, and a proxy of 16. The experiment classes are in PAXML's source since August 2024.

Flags of both: collectives combined up to 288 MiB (reduce-scatter by the number of GPUs less), no pipelining of
collectives after layout assignment, no local peer-to-peer copies by memcpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import base

if TYPE_CHECKING:
    import nemo_run as run

PERF_FLAGS = {
    "combine_threshold_bytes": 301989888,
    "xla_gpu_run_post_layout_collective_pipeliner": False,
    "xla_gpu_use_memcpy_local_p2p": False,
}
PROFILE_FLAGS = {"xla_gpu_run_post_layout_collective_pipeliner": False}
_KNOBS = {
    "checkpoint_policy": "save_iteration_input",
    "combine_qkv": False,
    "fprop_dtype": "bfloat16",
    "max_steps": base.MAX_STEPS,
    "percore_batch_size": 1.0,
    "use_expert_parallel": True,
    "use_fp8": True,
    "use_te_dpa": True,
}


def _grok(factory: str, experiment: str, num_nodes: int) -> run.Partial:
    return base.recipe(
        factory,
        f"paxml.tasks.lm.params.nvidia.{experiment}",
        _KNOBS,
        profile=PROFILE_FLAGS,
        perf=PERF_FLAGS,
        num_nodes=num_nodes,
        # Axes: replica, data, data_expert, mdl. Experts stay within a node.
        data_axis=1,
        ici_axis=2,
        groups_follow_devices=True,
    )


def grok1() -> run.Partial:
    """Grok-1, 314B: 64 layers, 8 experts of which 2 are active, sequence 8192: 32 nodes."""
    return _grok("grok1", "Grok", 32)


def grok_proxy() -> run.Partial:
    """Grok-1 with 16 of its 64 layers: 8 nodes."""
    return _grok("grok_proxy", "Grok_Proxy", 8)


def grok1_h100_bf16() -> run.Partial:
    """grok1 for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(grok1, "grok1_h100_bf16")


def grok1_h100_fp8() -> run.Partial:
    """grok1 for H100s in FP8, with PGLE."""
    return base.h100_fp8(grok1, "grok1_h100_fp8")


def grok_proxy_h100_bf16() -> run.Partial:
    """grok_proxy for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(grok_proxy, "grok_proxy_h100_bf16")


def grok_proxy_h100_fp8() -> run.Partial:
    """grok_proxy for H100s in FP8, with PGLE."""
    return base.h100_fp8(grok_proxy, "grok_proxy_h100_fp8")
