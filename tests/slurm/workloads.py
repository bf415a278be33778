"""Tasks for the tests on the cluster: a recipe of plain stages, and functions that NeMo-Run runs by its own runner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fiddle as fdl

from cloudai_run.executors.plan import Allocation, Artifact, Gate, Layout, Mpi, Nsys, NsysCapture, Stage


def recipe(stages: list[dict[str, Any]]) -> None:
    """A recipe for tests: `stages` are the arguments of plan.Stage, as plain data."""
    raise AssertionError("a recipe runs as its stages")


recipe.stages_from = "tests.slurm.workloads:stages_of"  # pyright: ignore[reportFunctionMemberAccess]


def stages_of(partial: fdl.Buildable[Any], allocation: Allocation) -> tuple[Stage, ...]:
    """The stages that the recipe's argument describes."""
    return tuple(_stage(dict(stage)) for stage in partial.stages)


def _stage(fields: dict[str, Any]) -> Stage:
    if "argv" in fields:
        fields["argv"] = tuple(fields["argv"])
    if "gate" in fields:
        fields["gate"] = Gate(**fields["gate"])
    if "nsys" in fields:
        capture = NsysCapture(fields["nsys"].pop("capture", "api"))
        fields["nsys"] = Nsys(
            ranks=tuple(fields["nsys"].pop("ranks", (0,))), capture=capture, **fields["nsys"]
        )
    fields["expects"] = tuple(Artifact(path=path) for path in fields.get("expects", ()))
    fields["mpi"] = Mpi(fields.get("mpi", "none"))
    fields["layout"] = Layout(fields.get("layout", "all_ranks"))
    return Stage(**fields)


def write_environment(folder: str, names: list[str]) -> None:
    """Writes variables as they arrived, byte for byte; NeMo-Run runs it in each rank."""
    rank = os.environ["SLURM_PROCID"]
    for name in names:
        Path(folder, f"{rank}.{name}").write_bytes(os.environb[name.encode()])
