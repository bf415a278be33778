"""Shrinks any PAXML recipe so that CPUs train it in seconds: the same stages, flags and files, another size.

Classes that exist in containers only become small ones of the project's own; its own classes stay, smaller.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import base, schema, xla
from cloudai_run.recipes.paxml.fiddlers import drop_rejected
from cloudai_run.recipes.paxml.knobs import knobs_class
from cloudai_run.recipes.paxml.settings import Settings, settings_of

if TYPE_CHECKING:
    import nemo_run as run

DENSE, EXPERTS = "cloudai_run_paxml.SmokeDense", "cloudai_run_paxml.SmokeMoe"
CPU_JAXLIB = "0.4.26"
"""The jaxlib of the CPU environment (tests/paxml/requirements.txt)."""
CPU_ENV: Mapping[str, str] = {
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
# Compiling takes most of a CPU run; without LLVM's costly passes it takes a third of that.
CPU_XLA: Mapping[str, xla.Value] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
PYTHON_VARIABLE = "CLOUDAI_RUN_PAXML_PYTHON"
DEFAULT_PYTHON = ".venv-paxml/bin/python"

_SIZES: Mapping[str, object] = {
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "dims_per_head": 16,
    "model_dims": 64,
    "hidden_dims": 128,
    "max_seq_len": 64,
    "trainable_pe_max_seq_len": 64,
    "vocab_size": 512,
    "percore_batch_size": 2.0,
    "summary_interval_steps": 1,
}
# Knobs of the recipe's that a CPU run keeps, if the class reads them.
_KEPT = (
    "combine_qkv",
    "fprop_dtype",
    "learning_rate",
    "max_steps",
    "use_gated_activation",
    "use_repeated_layer",
    "weight_decay",
)


def smoke_python() -> str:
    """Returns the interpreter of the CPU environment: $CLOUDAI_RUN_PAXML_PYTHON, else .venv-paxml here."""
    return str(Path(os.environ.get(PYTHON_VARIABLE, DEFAULT_PYTHON)).absolute())


def cpu_smoke(
    recipe: run.Partial,
    *,
    num_nodes: int = 1,
    ranks_per_node: int = 1,
    has_nsys: bool = True,
    jaxlib: str = CPU_JAXLIB,
    python: str | None = None,
) -> tuple[run.Partial, list[str]]:
    """Returns a recipe for CPUs, and what it could not keep, one text each.

    Args:
        recipe: the recipe, which stays as it is.
        num_nodes: nodes of the run.
        ranks_per_node: processes on each, with one CPU device each.
        has_nsys: False leaves the profile stage out: there is no nsys where it would run.
        jaxlib: version in the CPU environment; XLA flags that it rejects are left out.
        python: its interpreter; None takes `smoke_python()`, unless the recipe names one.
    """
    import nemo_run as run

    small = copy.deepcopy(recipe)
    before = settings_of(recipe)
    small.fdl_config = _small_class(before)
    knobs = _small_knobs(before, small.fdl_config, num_nodes, ranks_per_node)
    small.fdl = run.Config(knobs_class(small.fdl_config))
    for name, value in knobs.items():
        setattr(small.fdl, name, value)
    resets = _knob_resets(before, small.fdl_config, knobs)
    resets += _fit_xla(small, jaxlib)
    if small.pgle.enabled and small.pgle.mode == "nsys" and not has_nsys:
        small.pgle.enabled = False
        resets.append("pgle is off: there is no nsys here")
    if small.workload.container_image is not None:
        resets.append(f"workload.container_image {small.workload.container_image} is left out")
    _fit_workload(small, python, num_nodes, ranks_per_node)
    return small, resets


def _small_class(before: Settings) -> str:
    name = before.fdl_config
    if schema.experiment(name) is None or name.startswith("cloudai_run_paxml.Nemotron"):
        return name
    return EXPERTS if before.number("num_experts") else DENSE


def _small_knobs(before: Settings, fdl_config: str, num_nodes: int, ranks_per_node: int) -> dict[str, object]:
    devices = num_nodes * ranks_per_node
    knobs = {name: before.knobs[name] for name in _KEPT if name in before.knobs}
    knobs |= _SIZES
    knobs |= {"num_experts": max(2, devices), "num_groups": devices}
    knobs |= {"ici_mesh_shape": [1, ranks_per_node, 1], "dcn_mesh_shape": [1, num_nodes, 1]}
    # A class that nothing is known of gets the knobs that any language model of PAXML's has, and its own.
    if schema.experiment(fdl_config) is None:
        knobs = {**before.knobs, **knobs, "use_fp8": False}
    readable = base.settable(fdl_config)
    return {
        name: value
        for name, value in knobs.items()
        if name in readable or schema.experiment(fdl_config) is None
    }


def _knob_resets(before: Settings, fdl_config: str, knobs: Mapping[str, object]) -> list[str]:
    resets = []
    if fdl_config != before.fdl_config:
        resets.append(f"fdl_config {before.fdl_config} became {fdl_config}")
    changed = [name for name, value in before.knobs.items() if knobs.get(name, value) != value]
    dropped = [name for name in before.knobs if name not in knobs]
    if changed:
        resets.append(f"fdl.{', '.join(sorted(changed))} made small")
    if dropped:
        resets.append(f"fdl.{', '.join(sorted(dropped))} left out")
    return resets


def _fit_xla(small: run.Partial, jaxlib: str) -> list[str]:
    small.workload.jaxlib = jaxlib
    done = [text for part in xla.SETS for text in drop_rejected(getattr(small.xla, part), jaxlib)]
    common = small.xla.common
    common.extra = {**common.__arguments__.get("extra", {}), **CPU_XLA}
    flags = sorted({text.split()[0] for text in done})
    return [f"XLA flags that jaxlib {jaxlib} lacks: {', '.join(flags)}"] if flags else []


def _fit_workload(small: run.Partial, python: str | None, num_nodes: int, ranks_per_node: int) -> None:
    workload, given = small.workload, small.workload.__arguments__
    workload.smoke, workload.container_image, workload.gpu = True, None, None
    workload.num_nodes, workload.num_gpus_per_node = num_nodes, ranks_per_node
    workload.data_axis = workload.ici_axis = None
    workload.groups_follow_devices = False
    workload.env = {**given.get("env", {}), **CPU_ENV}
    if python is not None or workload.python == "python3":
        workload.python = python or smoke_python()
    if num_nodes * ranks_per_node > 1:
        workload.main_flags = {**given.get("main_flags", {}), "jax_cpu_enable_gloo_collectives": True}
