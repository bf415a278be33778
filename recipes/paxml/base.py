"""What the PAXML recipes have in common: their nodes, the XLA flags of all three models, and how one is derived.

XLA flags, environment and knobs are those with which these models ran on up to 2,000 H100s; each module says what its
own are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cloudai_run.recipes.paxml import nodes, schema, task
from cloudai_run.recipes.paxml.knobs import knobs_class
from cloudai_run.recipes.paxml.xla import Value

if TYPE_CHECKING:
    import nemo_run as run

COMMON_FLAGS: Mapping[str, Value] = {
    "xla_disable_hlo_passes": "rematerialization",
    "xla_dump_hlo_pass_re": ".*",
    "xla_gpu_enable_all_gather_combine_by_dim": False,
    "xla_gpu_enable_highest_priority_async_stream": True,
    "xla_gpu_enable_latency_hiding_scheduler": True,
    "xla_gpu_enable_pipelined_all_gather": True,
    "xla_gpu_enable_pipelined_all_reduce": True,
    "xla_gpu_enable_pipelined_reduce_scatter": True,
    "xla_gpu_enable_reduce_scatter_combine_by_dim": False,
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_enable_triton_softmax_fusion": False,
    "xla_gpu_enable_while_loop_double_buffering": True,
    "xla_gpu_graph_level": 0,
}
# The profile must show what each collective costs by itself: nothing runs beside it.
PROFILE_FLAGS: Mapping[str, Value] = {
    "xla_gpu_disable_async_collectives": (
        "ALLREDUCE,ALLGATHER,REDUCESCATTER,COLLECTIVEBROADCAST,ALLTOALL,COLLECTIVEPERMUTE"
    ),
    "xla_gpu_enable_latency_hiding_scheduler": False,
}
ENV: Mapping[str, str] = {
    "ENABLE_TE": "0",
    "NVTE_FUSED_ATTN": "1",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9",
}
MAX_STEPS = 20


def recipe(
    factory: str,
    fdl_config: str,
    knobs: Mapping[str, object],
    *,
    common: Mapping[str, Value] | None = None,
    profile: Mapping[str, Value] | None = None,
    perf: Mapping[str, Value] | None = None,
    pgle: bool = True,
    **workload: object,
) -> run.Partial:
    """Returns a recipe of an experiment class.

    Args:
        factory: the recipe's name.
        fdl_config: dotted path of the experiment class.
        knobs: knobs to set, in lower case.
        common: flags of both stages, over `COMMON_FLAGS`.
        profile: flags of the profile stage, over `PROFILE_FLAGS`.
        perf: flags of the perf stage.
        pgle: whether a profile stage comes first.
        **workload: fields of `nodes.Workload`.
    """
    import nemo_run as run

    def node(target: type, **values: Any) -> run.Config:
        return run.Config(target, **values)

    flags = {
        "common": {**COMMON_FLAGS, **(common or {})},
        "profile": {**PROFILE_FLAGS, **(profile or {})},
        "perf": dict(perf or {}),
    }
    return run.Partial(
        task.pretrain,
        fdl_config=fdl_config,
        fdl=node(knobs_class(fdl_config), **knobs),
        xla=node(
            nodes.XlaFlags,
            **{name: node(nodes.StageFlags, extra={}, **own) for name, own in flags.items()},
        ),
        pgle=node(nodes.Pgle, enabled=pgle),
        # Dicts and lists are given, so that one can change them in place.
        nsys=node(nodes.Nsys, ranks=[0], options={}),
        workload=node(nodes.Workload, factory=factory, env=dict(ENV), main_flags={}, **workload),
    )


def h100_bf16(base: Callable[[], run.Partial], factory: str) -> run.Partial:
    """Returns `base` for H100s in bfloat16, without PGLE: bfloat16 gains too little by it to run twice."""
    derived = copy.deepcopy(base())
    derived.workload.factory, derived.workload.gpu = factory, "H100"
    if "use_fp8" in settable(derived.fdl_config):
        derived.fdl.use_fp8 = False
    derived.pgle.enabled = False
    return derived


def h100_fp8(base: Callable[[], run.Partial], factory: str) -> run.Partial:
    """Returns `base` for H100s in FP8, with PGLE."""
    derived = copy.deepcopy(base())
    derived.workload.factory, derived.workload.gpu = factory, "H100"
    derived.fdl.use_fp8 = True
    derived.pgle.enabled = True
    return derived


def settable(fdl_config: str) -> list[str]:
    """Returns the knobs that an experiment class reads; all of them for one that nothing is known of."""
    found = schema.experiment(fdl_config)
    return found.settable if found else [*schema.load().target(schema.OPEN_KNOBS_TARGET).params]
