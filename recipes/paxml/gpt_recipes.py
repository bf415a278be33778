"""GPT: the synthetic 126M, 5B and 175B configurations of PAXML's GPU scripts, and NVIDIA's pipelined 5B and 175B.

Flags of all of them: all-reduce combined up to 427 MiB, no double buffering of loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import base

if TYPE_CHECKING:
    import nemo_run as run

CONFIGS = "paxml.contrib.gpu.scripts_gpu.configs"
FLAGS = {
    "xla_gpu_all_reduce_combine_threshold_bytes": 447741952,
    "xla_gpu_enable_while_loop_double_buffering": False,
}
_SYNTHETIC = {"fprop_dtype": "bfloat16", "max_steps": base.MAX_STEPS, "use_fp8": True}


def _synthetic(factory: str, experiment: str, axis: int, num_nodes: int, **knobs: object) -> run.Partial:
    return base.recipe(
        factory,
        f"{CONFIGS}.{experiment}",
        {**_SYNTHETIC, **knobs},
        common=FLAGS,
        num_nodes=num_nodes,
        data_axis=axis,
        ici_axis=axis,
    )


def gpt_126m() -> run.Partial:
    """GPT-3 126M on synthetic data, replicated on every GPU: 8 nodes."""
    return _synthetic(
        "gpt_126m", "Synthetic126M", 0, 8, checkpoint_policy="save_nothing", use_repeated_layer=False
    )


def gpt_5b() -> run.Partial:
    """GPT-3 5B on synthetic data, sharded over all GPUs: 32 nodes."""
    return _synthetic("gpt_5b", "Synthetic5B", 1, 32)


def gpt_175b() -> run.Partial:
    """GPT-3 175B on synthetic data, sharded over all GPUs: 32 nodes."""
    return _synthetic("gpt_175b", "Synthetic175B", 1, 32, checkpoint_policy="save_nothing")


def gpt_nvidia5b() -> run.Partial:
    """NVIDIA5B: 4 pipeline stages x 2-way tensor parallel on each node, replicated over the nodes: 2 nodes."""
    knobs = {"fprop_dtype": "bfloat16", "max_steps": base.MAX_STEPS, "ici_mesh_shape": [4, 1, 1, 2]}
    return base.recipe(
        "gpt_nvidia5b",
        "cloudai_run_paxml.NVIDIA5B",
        knobs,
        common=FLAGS,
        pgle=False,
        num_nodes=2,
        data_axis=1,
    )


def gpt_nvidia175b() -> run.Partial:
    """NVIDIA175B: 6 pipeline stages over the nodes x 8-way tensor parallel on each: 12 nodes."""
    knobs = {
        "fprop_dtype": "bfloat16",
        "max_steps": base.MAX_STEPS,
        "ici_mesh_shape": [1, 1, 1, 8],
        "dcn_mesh_shape": [6, 2, 1, 1],
        # The class has 1/16, which a process with one device rounds down to no sequence at all.
        "percore_batch_size": 1.0,
    }
    return base.recipe(
        "gpt_nvidia175b", "cloudai_run_paxml.NVIDIA175B", knobs, common=FLAGS, pgle=False, num_nodes=12
    )


def gpt() -> run.Partial:
    """GPT-3 5B on synthetic data: the same as gpt_5b."""
    derived = gpt_5b()
    derived.workload.factory = "gpt"
    return derived


def gpt_126m_h100_bf16() -> run.Partial:
    """gpt_126m for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(gpt_126m, "gpt_126m_h100_bf16")


def gpt_126m_h100_fp8() -> run.Partial:
    """gpt_126m for H100s in FP8, with PGLE."""
    return base.h100_fp8(gpt_126m, "gpt_126m_h100_fp8")


def gpt_5b_h100_bf16() -> run.Partial:
    """gpt_5b for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(gpt_5b, "gpt_5b_h100_bf16")


def gpt_5b_h100_fp8() -> run.Partial:
    """gpt_5b for H100s in FP8, with PGLE."""
    return base.h100_fp8(gpt_5b, "gpt_5b_h100_fp8")


def gpt_175b_h100_bf16() -> run.Partial:
    """gpt_175b for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(gpt_175b, "gpt_175b_h100_bf16")


def gpt_175b_h100_fp8() -> run.Partial:
    """gpt_175b for H100s in FP8, with PGLE."""
    return base.h100_fp8(gpt_175b, "gpt_175b_h100_fp8")


def gpt_nvidia5b_h100_bf16() -> run.Partial:
    """gpt_nvidia5b for H100s in bfloat16: PAXML's pipelined classes ignore USE_FP8."""
    return base.h100_bf16(gpt_nvidia5b, "gpt_nvidia5b_h100_bf16")


def gpt_nvidia175b_h100_bf16() -> run.Partial:
    """gpt_nvidia175b for H100s in bfloat16: PAXML's pipelined classes ignore USE_FP8."""
    return base.h100_bf16(gpt_nvidia175b, "gpt_nvidia175b_h100_bf16")
