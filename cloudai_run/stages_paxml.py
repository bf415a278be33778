"""From a PAXML recipe to the stages of a plan: where recipes and executors meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudai_run.executors.nsys import Nsys, NsysCapture, report_path
from cloudai_run.executors.plan import Allocation, Artifact, Gate, Layout, NodeVar, Stage, Word
from cloudai_run.executors.tasks import HEAD_NODE
from cloudai_run.recipes.paxml import stages as paxml

if TYPE_CHECKING:
    import fiddle as fdl


def paxml_stages(recipe: fdl.Buildable, allocation: Allocation) -> tuple[Stage, ...]:
    """Returns the stages of a PAXML recipe in an allocation.

    Raises:
        RecipeError: for a recipe that could not run there.
    """
    specs = paxml.stage_specs(
        recipe,
        nodes=allocation.nodes,
        ntasks_per_node=allocation.ntasks_per_node,
        run_dir=allocation.run_dir,
        local=allocation.local,
        gpus_per_node=allocation.gpus_per_node,
    )
    return tuple(_stage(spec, allocation) for spec in specs)


def _stage(spec: paxml.StageSpec, allocation: Allocation) -> Stage:
    return Stage(
        name=spec.name,
        argv=tuple(_word(word, allocation) for word in spec.argv),
        env={name: _word(word, allocation) for name, word in spec.env.items()},
        layout=Layout(spec.layout),
        container=spec.container_image,
        gate=Gate(text=spec.marker, every_rank=True) if spec.marker is not None else None,
        timeout_s=spec.timeout_s,
        expects=tuple(Artifact(path=path, hint=hint) for path, hint in spec.artifacts.items()),
        nsys=_nsys(spec.nsys) if spec.nsys is not None else None,
    )


def _nsys(spec: paxml.NsysSpec) -> Nsys:
    return Nsys(ranks=spec.ranks, options=spec.options, capture=NsysCapture(spec.capture))


def _word(word: paxml.Word, allocation: Allocation) -> Word:
    if isinstance(word, tuple):
        return tuple(_piece(piece, allocation) for piece in word)
    return _piece(word, allocation)


def _piece(piece: str | paxml.Marker, allocation: Allocation) -> str | NodeVar:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, paxml.Variable):
        return NodeVar(piece.name)
    if isinstance(piece, paxml.HeadNode):
        return NodeVar(HEAD_NODE)
    return report_path(allocation.run_dir, allocation.job_name, piece.stage, piece.rank)
