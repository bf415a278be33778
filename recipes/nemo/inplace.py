"""Runs a recipe where it stands: what calling a built recipe does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.schema import Tree
from cloudai_run.recipes.nemo.tree import check, schema_id_of, to_tree


def run_in_place(recipe: object, execute: Callable[..., object] | None = None) -> object:
    """Replaces this process by the command that the recipe stands for, with the recipe's environment added.

    Args:
        recipe: What building the recipe's config and calling it gave.
        execute: Called with the program, its arguments and its whole environment; os.execvpe unless given.

    Raises:
        RecipeError: The recipe has no workload, cannot be put into a command, or its program is not on PATH.
    """
    tree = to_tree(recipe)
    argv = command(tree)
    workload = tree["workload"]
    env = workload.get("env") if isinstance(workload, dict) else None
    added = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    try:
        return (execute or os.execvpe)(argv[0], list(argv), {**os.environ, **added})
    except FileNotFoundError as error:
        raise RecipeError(
            f"{argv[0]} is not on PATH, so {workload_name(tree)} cannot run here\n"
            "  install NeMo here, or use an executor with a container that has it"
        ) from error


def command(tree: dict[str, Tree]) -> tuple[str, ...]:
    """Returns the command of a recipe's tree on the nodes and devices that its trainer names.

    Raises:
        RecipeError: The tree has no workload, or something that the schema does not know or NeMo cannot be told.
    """
    workload = tree.get("workload")
    if not isinstance(workload, dict):
        raise RecipeError("the recipe has no workload: build it with a factory of cloudai_run.recipes")
    check(tree, schemas.load(schema_id_of(tree)))
    if workload.get("smoke"):
        from cloudai_run.recipes.nemo.smoke import cpu_smoke, smoke_argv

        if _trainer(tree).get("accelerator") != "cpu":
            tree = cpu_smoke(tree)[0]
        num_nodes, devices = _size(tree)
        return smoke_argv(tree, num_nodes=num_nodes, num_processes_per_node=devices)
    from cloudai_run.recipes.nemo.command import pretrain_argv

    return pretrain_argv(tree, *_size(tree))


def _trainer(tree: Mapping[str, Tree]) -> Mapping[str, Tree]:
    trainer = tree.get("trainer")
    return trainer if isinstance(trainer, dict) else {}


def _size(tree: Mapping[str, Tree]) -> tuple[int, int]:
    trainer = _trainer(tree)
    return _whole(trainer.get("num_nodes")), _whole(trainer.get("devices"))


def _whole(value: Tree) -> int:
    return value if isinstance(value, int) else 1


def workload_name(tree: Mapping[str, Tree]) -> str:
    """Returns the recipe's name, for messages."""
    workload = tree.get("workload")
    return str(workload.get("factory")) if isinstance(workload, dict) else "the recipe"
