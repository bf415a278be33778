"""A recipe of any PAXML experiment class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import base, schema

if TYPE_CHECKING:
    import nemo_run as run

GPUS_PER_NODE = 8


def paxml(fdl_config: str = "paxml.tasks.lm.params.lm_cloud.LmCloudSpmd2B") -> run.Partial:
    """Any experiment class of PAXML's or of your own, without PGLE and with the class's own knobs.

    Args:
        fdl_config: dotted path of the class, importable where the run is.
    """
    knobs = {"max_steps": base.MAX_STEPS} if "max_steps" in base.settable(fdl_config) else {}
    nodes, gpus = _layout(fdl_config)
    return base.recipe("paxml", fdl_config, knobs, pgle=False, num_nodes=nodes, num_gpus_per_node=gpus)


def _layout(fdl_config: str) -> tuple[int, int]:
    """Returns the nodes and the GPUs on each that the meshes of an experiment class ask for."""
    found = schema.experiment(fdl_config)
    meshes = [found.knobs.get(name) for name in ("ICI_MESH_SHAPE", "DCN_MESH_SHAPE")] if found else []
    sizes = [size for mesh in meshes if isinstance(mesh, list) for size in mesh if isinstance(size, int)]
    devices = math.prod(sizes)
    return (1, devices) if devices < GPUS_PER_NODE else (devices // GPUS_PER_NODE, GPUS_PER_NODE)
