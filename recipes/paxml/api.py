"""PAXML recipes as a launcher uses them: functions on trees, which overrides change."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import facts as fact_module
from cloudai_run.recipes.paxml import rules, schema
from cloudai_run.recipes.paxml.catalogue import RECIPES
from cloudai_run.recipes.paxml.settings import Place, placed, settings_of
from cloudai_run.recipes.paxml.smoke import cpu_smoke
from cloudai_run.recipes.paxml.stages import readable, train_argv
from cloudai_run.recipes.paxml.tree import Json, Tree, from_tree, to_tree


def recipe_tree(name: str, **arguments: object) -> Tree:
    """Returns the tree of a recipe.

    Raises:
        RecipeError: if there is no recipe of that name.
    """
    if name not in RECIPES:
        raise RecipeError(f"no PAXML recipe is called {name}{schema.hint(name, RECIPES)}")
    module, _, function = RECIPES[name]["factory"].partition(":")
    return to_tree(getattr(importlib.import_module(module), function)(**arguments))


def layout_of(tree: Mapping[str, Json]) -> tuple[int, int]:
    """Returns the number of nodes and of GPUs on each that a recipe is for."""
    workload = settings_of(tree).workload
    return workload.num_nodes, workload.num_gpus_per_node


def with_layout(tree: Mapping[str, Json], num_nodes: int, num_gpus_per_node: int) -> Tree:
    """Returns the tree for another layout; meshes that the recipe leaves unset follow from it."""
    workload = tree["workload"]
    assert isinstance(workload, dict)
    layout: Tree = {"num_nodes": num_nodes, "num_gpus_per_node": num_gpus_per_node}
    return {**tree, "workload": {**workload, **layout}}


def violations(
    tree: Mapping[str, Json], num_nodes: int, num_gpus_per_node: int, *, local: bool = False
) -> list[rules.Violation]:
    """Returns the rules that a tree breaks in a layout, with one rank a GPU."""
    place = Place(num_nodes, num_gpus_per_node, num_gpus_per_node, local)
    return rules.check(placed(settings_of(tree), place), place)


def notes(tree: Mapping[str, Json]) -> list[str]:
    """Returns what a user should know of a run that can start, one line each."""
    return rules.notes(settings_of(tree))


def facts(tree: Mapping[str, Json], num_nodes: int, num_gpus_per_node: int) -> dict[str, Json]:
    """Returns the fields of a run's record that follow from a tree and its layout."""
    return fact_module.facts(settings_of(tree), num_nodes, num_gpus_per_node)


def command(tree: Mapping[str, Json], num_nodes: int, num_gpus_per_node: int) -> tuple[str, ...]:
    """Returns what each rank of the perf stage runs, for a person: `$NAME` is what expands on the rank."""
    place = Place(num_nodes, num_gpus_per_node)
    words = train_argv(placed(settings_of(tree), place), place, "RUN_FOLDER", "perf")
    return tuple(readable(word) for word in words)


def with_fdl_config(tree: Mapping[str, Json], fdl_config: str) -> Tree:
    """Returns the tree for another experiment class, with the knobs that it sets.

    An override of `fdl_config` comes before the others: which knobs they may set follows from it.

    Raises:
        RecipeError: for a knob that the recipe sets and the class does not read.
    """
    return schema.retarget(tree, fdl_config)


def smoke(
    tree: Mapping[str, Json], num_nodes: int, ranks_per_node: int, *, has_nsys: bool = True
) -> tuple[Tree, list[str]]:
    """Returns the tree for CPUs, and what it could not keep; see `smoke.cpu_smoke`."""
    small, resets = cpu_smoke(
        from_tree(tree), num_nodes=num_nodes, ranks_per_node=ranks_per_node, has_nsys=has_nsys
    )
    return to_tree(small), resets
