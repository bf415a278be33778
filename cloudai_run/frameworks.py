"""What the launcher needs of a framework: one small adapter each for NeMo and PAXML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cloudai_run.errors import UserError
from cloudai_run.overrides import Override
from cloudai_run.overrides.schema import SchemaLike, Tree
from cloudai_run.recipes import catalogue
from cloudai_run.recipes.suggest import did_you_mean

if TYPE_CHECKING:
    from nemo_run import Partial

Config = dict[str, Tree]


@dataclass(frozen=True)
class Layout:
    """How many nodes, and ranks on each, a configuration is for."""

    num_nodes: int
    num_gpus_per_node: int


class RuleViolation(Protocol):
    """A rule of the model that a configuration breaks."""

    @property
    def rule(self) -> str: ...
    @property
    def message(self) -> str: ...


class Framework(Protocol):
    """A recipe of one framework, seen by the launcher."""

    @property
    def name(self) -> str: ...
    @property
    def recipe(self) -> str: ...
    @property
    def schema(self) -> SchemaLike: ...
    @property
    def versions(self) -> Mapping[str, str]: ...

    def recipe_tree(self) -> Config:
        """Returns the recipe's own configuration."""
        ...

    def for_image(self, image: str | None) -> Framework:
        """Returns the same recipe checked against what is known of that container image."""
        ...

    def start(self, tree: Config, overrides: Sequence[Override]) -> Config:
        """Returns the configuration that the overrides apply to: one of them may choose what the others may name."""
        ...

    def version_note(self, image: str) -> str | None:
        """Returns a line for the user if a container may hold another version than the one checked against."""
        ...

    def with_profiler(
        self, tree: Config, start_step: int | None, end_step: int | None, ranks: Sequence[int]
    ) -> Config:
        """Returns the configuration whose program calls cudaProfilerStart and Stop at those steps."""
        ...

    def layout_of(self, tree: Config) -> Layout:
        """Returns the layout that a configuration asks for itself."""
        ...

    def full_layout(self, tree: Config) -> Layout:
        """Returns the layout that the rules of a smoke run are checked in."""
        ...

    def command(self, tree: Config, layout: Layout) -> tuple[str, ...]:
        """Returns what each rank runs, of the stage that is measured."""
        ...

    def with_layout(self, tree: Config, layout: Layout) -> Config:
        """Returns the configuration for that layout."""
        ...

    def violations(self, tree: Config, layout: Layout) -> Sequence[RuleViolation]:
        """Returns the rules that a configuration breaks in that layout."""
        ...

    def notes(self, tree: Config) -> Sequence[str]:
        """Returns what the user should know of a configuration that can start, one line each."""
        ...

    def smoke(self, tree: Config, layout: Layout) -> tuple[Config, list[str]]:
        """Returns the configuration shrunk for a CPU, and what of the user's could not be kept."""
        ...

    def partial(self, tree: Config) -> Partial:
        """Returns the fiddle graph of a configuration."""
        ...

    def facts(self, tree: Config) -> dict[str, Tree]:
        """Returns what the run's record holds of a configuration: batch, sequence, model shape, precision."""
        ...


def with_env(tree: Config, env: Mapping[str, str]) -> Config:
    """Returns a configuration, of any framework, with these variables added to the environment of its ranks."""
    if not env:
        return tree
    workload = tree["workload"]
    assert isinstance(workload, dict), "a recipe's tree has a workload, and files are checked for one"
    before = workload.get("env")
    merged: dict[str, Tree] = {**(before if isinstance(before, dict) else {}), **env}
    return {**tree, "workload": {**workload, "env": merged}}


def framework_of(recipe: str) -> Framework:
    """Returns the adapter for a recipe.

    Raises:
        UserError: there is no such recipe; names the nearest.
    """
    entry = catalogue.RECIPES.get(recipe)
    if entry is None:
        near = did_you_mean(recipe, catalogue.RECIPES)
        raise UserError(
            f"there is no recipe {recipe!r}\n"
            + (f"  did you mean {', '.join(near)}?\n" if near else "")
            + "  all of them: cloudai-run list"
        )
    if entry.framework == "paxml":
        from cloudai_run.paxml_framework import PaxmlFramework

        return PaxmlFramework(recipe)
    from cloudai_run.nemo_framework import NemoFramework

    return NemoFramework(recipe)
