"""PAXML recipes as the launcher sees them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.frameworks import Config, Layout, RuleViolation
from cloudai_run.overrides import Override
from cloudai_run.overrides.schema import Tree
from cloudai_run.recipes.paxml import api, schema

if TYPE_CHECKING:
    from nemo_run import Partial

    from cloudai_run.recipes.paxml.stages import Word


def _shown(word: Word) -> str:
    """A word of a command with the name of each variable in place of its value on the rank."""
    pieces = word if isinstance(word, tuple) else (word,)
    return "".join(
        piece if isinstance(piece, str) else f"${getattr(piece, 'name', 'HEAD_NODE')}" for piece in pieces
    )


class PaxmlFramework:
    """A PAXML recipe.

    Attributes:
        recipe: its name.
        schema: the knobs and nodes that overrides are checked against.
    """

    name = "paxml"

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe
        self.schema = schema.load()
        self.versions: Mapping[str, str] = self.schema.versions

    def for_image(self, image: str | None) -> PaxmlFramework:
        """PAXML's knobs are known by experiment class, not by image."""
        del image
        return self

    def version_note(self, image: str) -> str | None:
        """The jaxlib version that XLA flags are checked against is the recipe's own setting."""
        del image

    def recipe_tree(self) -> Config:
        """Returns the recipe's configuration."""
        return api.recipe_tree(self.recipe)

    def start(self, tree: Config, overrides: Sequence[Override]) -> Config:
        """An override of `fdl_config` says which knobs there are; a knob that its class ignores is refused with why."""
        for override in overrides:
            if override.path == ("fdl_config",) and override.operator == "=":
                tree = api.with_fdl_config(tree, override.raw.strip().strip("\"'"))
        for override in overrides:
            if len(override.path) > 1 and override.path[0] == "fdl":
                schema.check_knob(str(tree["fdl_config"]), str(override.path[1]))
        return tree

    def layout_of(self, tree: Config) -> Layout:
        """Returns workload.num_nodes and workload.num_gpus_per_node."""
        return Layout(*api.layout_of(tree))

    def full_layout(self, tree: Config) -> Layout:
        """Returns the layout that the rules of a smoke run are checked in: the configuration's own."""
        return self.layout_of(tree)

    def with_layout(self, tree: Config, layout: Layout) -> Config:
        """Sets the layout; meshes that the recipe leaves unset follow from it."""
        return api.with_layout(tree, layout.num_nodes, layout.num_gpus_per_node)

    def with_profiler(
        self, tree: Config, start_step: int | None, end_step: int | None, ranks: Sequence[int]
    ) -> Config:
        """A PAXML recipe says itself which stage and ranks nsys wraps.

        Raises:
            UserError: always; says how to ask.
        """
        del tree, start_step, end_step, ranks
        raise UserError(
            f"{self.recipe} profiles by itself: run.plugins=nsys is for NeMo recipes\n"
            "  the profile stage: pgle.enabled=True; the perf stage too: nsys.enabled=True nsys.ranks=[0]"
        )

    def violations(self, tree: Config, layout: Layout) -> Sequence[RuleViolation]:
        """Returns the rules of meshes, experts, batches, knobs and XLA flags that the configuration breaks."""
        return api.violations(tree, layout.num_nodes, layout.num_gpus_per_node)

    def notes(self, tree: Config) -> list[str]:
        """Returns what the user should know of a run that can start."""
        return api.notes(tree)

    def smoke(self, tree: Config, layout: Layout) -> tuple[Config, list[str]]:
        """Shrinks the configuration for a CPU."""
        has_nsys = shutil.which("nsys") is not None
        return api.smoke(tree, layout.num_nodes, layout.num_gpus_per_node, has_nsys=has_nsys)

    def partial(self, tree: Config) -> Partial:
        """Returns the fiddle graph."""
        from cloudai_run.recipes.paxml.tree import from_tree

        return from_tree(tree)

    def command(self, tree: Config, layout: Layout) -> tuple[str, ...]:
        """Returns what each rank of the perf stage runs; what expands on the rank is shown by its variable's name."""
        from cloudai_run.recipes.paxml.stages import stage_specs

        specs = stage_specs(
            self.partial(tree),
            nodes=layout.num_nodes,
            ntasks_per_node=layout.num_gpus_per_node,
            run_dir="RUN_DIR",
            local=False,
        )
        return tuple(map(_shown, specs[-1].argv))

    def facts(self, tree: Config) -> dict[str, Tree]:
        """Returns batch, sequence, precision, model, stages and XLA flags for the run's record."""
        return api.facts(tree, *api.layout_of(tree))
