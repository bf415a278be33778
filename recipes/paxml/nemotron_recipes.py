"""Nemotron-4 15B and 340B, by the project's own experiment classes (cloudai_run_paxml.py).

Flags of both: collectives combined up to 3 GiB (reduce-scatter by the number of GPUs less).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import base

if TYPE_CHECKING:
    import nemo_run as run

FLAGS = {"combine_threshold_bytes": 3221225472}


def _nemotron(factory: str, experiment: str, num_nodes: int, percore_batch_size: float) -> run.Partial:
    knobs = {
        "checkpoint_policy": "save_nothing",
        "fprop_dtype": "bfloat16",
        "max_steps": base.MAX_STEPS,
        "percore_batch_size": percore_batch_size,
        "use_fp8": True,
        "use_repeated_layer": True,
    }
    return base.recipe(
        factory,
        f"cloudai_run_paxml.{experiment}",
        knobs,
        common=FLAGS,
        num_nodes=num_nodes,
        data_axis=1,
        ici_axis=1,
    )


def nemotron_15b() -> run.Partial:
    """Nemotron-4 15B, sequence 4096, sharded over all GPUs: 8 nodes."""
    return _nemotron("nemotron_15b", "Nemotron4_15B", 8, 4.0)


def nemotron_340b() -> run.Partial:
    """Nemotron-4 340B, sequence 4096, sharded over all GPUs: 64 nodes."""
    return _nemotron("nemotron_340b", "Nemotron4_340B", 64, 1.0)


def nemotron() -> run.Partial:
    """Nemotron-4 340B: the same as nemotron_340b."""
    derived = nemotron_340b()
    derived.workload.factory = "nemotron"
    return derived


def nemotron_15b_h100_bf16() -> run.Partial:
    """nemotron_15b for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(nemotron_15b, "nemotron_15b_h100_bf16")


def nemotron_15b_h100_fp8() -> run.Partial:
    """nemotron_15b for H100s in FP8, with PGLE."""
    return base.h100_fp8(nemotron_15b, "nemotron_15b_h100_fp8")


def nemotron_340b_h100_bf16() -> run.Partial:
    """nemotron_340b for H100s in bfloat16, without PGLE."""
    return base.h100_bf16(nemotron_340b, "nemotron_340b_h100_bf16")


def nemotron_340b_h100_fp8() -> run.Partial:
    """nemotron_340b for H100s in FP8, with PGLE."""
    return base.h100_fp8(nemotron_340b, "nemotron_340b_h100_fp8")
