"""A PAXML recipe as a tree of plain values and back: what overrides change and files hold."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cloudai_run.recipes.errors import RecipeError

if TYPE_CHECKING:
    import fiddle as fdl
    import nemo_run as run

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Tree = dict[str, Json]

PACKAGE = "cloudai_run.recipes.paxml."


def to_tree(recipe: fdl.Buildable) -> Tree:
    """Returns a recipe as a tree: what it sets, with `_target_` for each node and `_partial_` for the root.

    Raises:
        RecipeError: for a value that has no place in a tree.
    """
    node = _value(recipe, "recipe")
    assert isinstance(node, dict)
    return node


def _value(value: object, path: str) -> Json:
    import fiddle as fdl

    if isinstance(value, fdl.Buildable):
        target = fdl.get_callable(value)
        node: Tree = {"_target_": f"{target.__module__}.{target.__qualname__}"}
        if isinstance(value, fdl.Partial):
            node["_partial_"] = True
        return node | {
            str(name): _value(part, f"{path}.{name}") for name, part in value.__arguments__.items()
        }
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_value(part, f"{path}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(name): _value(part, f"{path}.{name}") for name, part in value.items()}
    raise RecipeError(f"{path} is {value!r}: a PAXML recipe holds numbers, text, lists and dicts")


def from_tree(tree: Mapping[str, Json]) -> run.Partial:
    """Returns the recipe of a tree.

    Raises:
        RecipeError: for a node that no PAXML recipe has, or a parameter that it does not take.
    """
    import nemo_run as run

    recipe = _built(dict(tree), "recipe")
    if not isinstance(recipe, run.Partial):
        raise RecipeError("the tree is no PAXML recipe: its root is no partial")
    return recipe


def _built(value: Json, path: str) -> object:
    import nemo_run as run

    if isinstance(value, list):
        return [_built(part, f"{path}[{index}]") for index, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    parts = {name: _built(part, f"{path}.{name}") for name, part in value.items() if not name.startswith("_")}
    if "_target_" not in value:
        return parts
    target = _target(str(value["_target_"]), path)
    try:
        # A node is made before it is filled: the constructors refuse a wrong name with another error than fiddle's.
        node = (run.Partial if value.get("_partial_") else run.Config)(target)
        for name, part in parts.items():
            setattr(node, name, part)
    except (AttributeError, TypeError) as error:
        raise RecipeError(f"{path}: {error}") from error
    return node


def _target(dotted: str, path: str) -> type:
    """Returns the class or function of a `_target_`, which may lie in a class's or package's namespace."""
    if not dotted.startswith(PACKAGE):
        raise RecipeError(f"{path} is a {dotted}, which is no part of a PAXML recipe")
    module, _, rest = dotted.removeprefix(PACKAGE).partition(".")
    try:
        found = importlib.import_module(PACKAGE + module)
        for name in rest.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise RecipeError(f"{path} is a {dotted}: {error}") from error
    return found  # pyright: ignore[reportReturnType]
