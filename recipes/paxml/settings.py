"""A PAXML recipe with its nodes built, and the knobs that follow from where it runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import schema, xla
from cloudai_run.recipes.paxml.nodes import Nsys, Pgle, StageFlags, Workload, XlaFlags
from cloudai_run.recipes.paxml.tree import Json, from_tree

if TYPE_CHECKING:
    import fiddle as fdl

Value = object


@dataclass(frozen=True)
class Settings:
    """A recipe's values.

    Attributes:
        fdl_config: the experiment class.
        knobs: what the recipe sets, in lower case.
        xla, pgle, nsys, workload: its nodes.
    """

    fdl_config: str
    knobs: Mapping[str, Value]
    xla: XlaFlags
    pgle: Pgle
    nsys: Nsys
    workload: Workload

    def knob(self, name: str, default: Value = None) -> Value:
        """Returns what the recipe sets, else the class's value, else `default`."""
        if name in self.knobs:
            return self.knobs[name]
        known = schema.experiment(self.fdl_config)
        return known.knobs.get(name.upper(), default) if known else default

    def number(self, name: str) -> int | float | None:
        """Returns a knob that is a number, else None."""
        value = self.knob(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def mesh(self, name: str) -> list[int] | None:
        """Returns a knob that is a list of whole numbers, else None."""
        value = self.knob(name)
        if isinstance(value, list | tuple) and all(type(part) is int for part in value):
            return list(value)
        return None


@dataclass(frozen=True)
class Place:
    """Where a recipe runs.

    Attributes:
        nodes: number of nodes.
        ntasks_per_node: ranks a node.
        gpus_per_node: None if nobody said.
        local: no Slurm.
    """

    nodes: int
    ntasks_per_node: int
    gpus_per_node: int | None = None
    local: bool = False

    @property
    def ranks(self) -> int:
        """Number of processes."""
        return self.nodes * self.ntasks_per_node

    @property
    def devices_per_rank(self) -> int:
        """Devices that JAX gives a process: one to a Slurm task, all of a node to a single local process."""
        return (self.gpus_per_node or 1) if self.local and self.ranks == 1 else 1

    @property
    def devices(self) -> int:
        """Number of devices that JAX sees in all."""
        return self.ranks * self.devices_per_rank


def settings_of(recipe: fdl.Buildable | Mapping[str, Json]) -> Settings:
    """Returns the values of a recipe, or of its tree.

    Raises:
        RecipeError: for what is no PAXML recipe, or misses a part of one.
    """
    import fiddle as fdl

    buildable = from_tree(recipe) if isinstance(recipe, Mapping) else recipe
    parts = dict(buildable.__arguments__)
    missing = {"fdl_config", "fdl", "xla", "pgle", "nsys", "workload"} - parts.keys()
    if missing:
        raise RecipeError(f"the PAXML recipe lacks {', '.join(sorted(missing))}")
    built = {
        name: fdl.build(part) if isinstance(part, fdl.Buildable) else part for name, part in parts.items()
    }
    return Settings(
        fdl_config=built["fdl_config"],
        knobs=dict(vars(built["fdl"])),
        xla=built["xla"],
        pgle=built["pgle"],
        nsys=built["nsys"],
        workload=built["workload"],
    )


def placed(settings: Settings, place: Place) -> Settings:
    """Returns the settings with the knobs that follow from the place, where the recipe leaves them unset."""
    knobs = dict(settings.knobs)
    ici, dcn = settings.mesh("ici_mesh_shape"), settings.mesh("dcn_mesh_shape")
    workload = settings.workload
    if workload.ici_axis is not None and "ici_mesh_shape" not in knobs and ici:
        knobs["ici_mesh_shape"] = _along(len(ici), workload.ici_axis, place.devices // place.nodes)
    if workload.data_axis is not None and "dcn_mesh_shape" not in knobs and ici:
        knobs["dcn_mesh_shape"] = _along(len(dcn or ici), workload.data_axis, place.nodes)
    if workload.groups_follow_devices and "num_groups" not in knobs:
        knobs["num_groups"] = place.devices
    return dataclasses.replace(settings, knobs=knobs)


def _along(axes: int, axis: int, size: int) -> list[int]:
    if not -axes <= axis < axes:
        raise RecipeError(f"workload names axis {axis} of a mesh that has {axes} axes")
    shape = [1] * axes
    shape[axis] = size
    return shape


def product(shape: Sequence[int] | None) -> int:
    """Returns the number of devices of a mesh; 1 for none."""
    return math.prod(shape or ())


def flags_of(settings: Settings, stage: str, num_gpus: int) -> dict[str, xla.Value]:
    """Returns the XLA flags of a stage (`profile` or `perf`): the common ones, with the stage's own over them."""
    merged: dict[str, xla.Value] = {}
    threshold: int | None = None
    for name in ("common", stage):
        flags = getattr(settings.xla, name)
        own = set_flags(flags)
        merged |= own
        threshold = flags.combine_threshold_bytes if flags.combine_threshold_bytes is not None else threshold
    if settings.xla.modern:
        named = settings.workload.jaxlib
        xla.check_version(named)
        merged, _ = xla.fitted(merged, named if named != xla.UNKNOWN else xla.table().versions[-1])
    return xla.with_thresholds(merged, threshold, num_gpus)


def set_flags(flags: StageFlags) -> dict[str, xla.Value]:  # pyright: ignore[reportInvalidTypeForm]
    """Returns the XLA flags that a node sets."""
    known = {name: getattr(flags, name) for name in xla.table().flags}
    return {name: value for name, value in known.items() if value is not None} | dict(flags.extra)
