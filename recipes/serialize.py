"""Recipes as YAML, JSON and TOML files, and back to an equal config.

A file holds what a recipe and its overrides set; what it does not name has the framework's own default. Nodes carry
the framework's own names as `_target_`. TOML has no null: the table `{ _null_ = true }` stands for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cloudai_run.recipes.errors import RecipeError

if TYPE_CHECKING:
    import nemo_run as run

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
Config: TypeAlias = "dict[str, Tree]"

PAXML = "cloudai_run.recipes.paxml."
KINDS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
NULL: Config = {"_null_": True}
# A whole recipe is about 5 kB; NeMo's largest model configurations stay below this by far.
MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 60


def tree_of(recipe: run.Partial) -> Config:
    """Returns the tree of a recipe of any framework.

    Raises:
        RecipeError: A value has no place in a tree.
    """
    from cloudai_run.recipes.nemo import tree as nemo_tree
    from cloudai_run.recipes.paxml import tree as paxml_tree

    target = recipe.__fn_or_cls__
    if f"{target.__module__}.".startswith(PAXML):
        return paxml_tree.to_tree(recipe)
    return nemo_tree.to_tree(recipe)


def recipe_of(tree: Mapping[str, Tree]) -> run.Partial:
    """Returns the recipe of a tree of any framework.

    Raises:
        RecipeError: The tree names something that the framework's recipes do not have.
    """
    if str(tree.get("_target_", "")).startswith(PAXML):
        from cloudai_run.recipes.paxml import tree as paxml_tree

        return paxml_tree.from_tree(tree)
    from cloudai_run.recipes.nemo import tree as nemo_tree

    return nemo_tree.from_tree(tree)


def to_yaml(recipe: run.Partial) -> str:
    """Returns a recipe as YAML."""
    return dump(tree_of(recipe), "yaml")


def to_json(recipe: run.Partial) -> str:
    """Returns a recipe as JSON."""
    return dump(tree_of(recipe), "json")


def to_toml(recipe: run.Partial) -> str:
    """Returns a recipe as TOML, with `{ _null_ = true }` for null."""
    return dump(tree_of(recipe), "toml")


def from_yaml(text: str, source: str = "the YAML") -> run.Partial:
    """Returns the recipe that YAML text holds; `source` names the text in messages.

    Raises:
        RecipeError: The text is no recipe.
    """
    return _recipe(text, "yaml", source)


def from_json(text: str, source: str = "the JSON") -> run.Partial:
    """Returns the recipe that JSON text holds; `source` names the text in messages.

    Raises:
        RecipeError: The text is no recipe.
    """
    return _recipe(text, "json", source)


def from_toml(text: str, source: str = "the TOML") -> run.Partial:
    """Returns the recipe that TOML text holds; `source` names the text in messages.

    Raises:
        RecipeError: The text is no recipe.
    """
    return _recipe(text, "toml", source)


def read_tree(path: Path) -> Config:
    """Returns the tree in a file, by its suffix, with every name in it checked. Nothing in it is executed.

    Raises:
        RecipeError: The file cannot be read or is no recipe.
    """
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise RecipeError(f"{path} has none of the endings {', '.join(KINDS)}")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RecipeError(f"{path} is larger than {MAX_BYTES // 1024**2} MiB, which no recipe is")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not valid UTF-8") from error
    return load(text, kind, str(path))


def dump(tree: Mapping[str, Tree], kind: str) -> str:
    """Returns a tree as text of a kind: "yaml", "json" or "toml"."""
    if kind == "json":
        return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    if kind == "toml":
        import tomli_w

        return tomli_w.dumps({name: _without_null(value) for name, value in tree.items()})
    from cloudai_run.recipes import yaml_text

    return yaml_text.dump(tree)


def load(text: str, kind: str, source: str) -> Config:
    """Returns the tree that text of a kind holds, with every name in it checked.

    Raises:
        RecipeError: The text is no recipe.
    """
    try:
        tree = _plain(_LOADERS[kind](text), "", 0)
    except RecursionError as error:
        raise RecipeError(f"{source} is nested too deep") from error
    except ValueError as error:
        # The parsers' errors are ValueErrors, or made so; some point into the text over several lines.
        raise RecipeError(f"{source}: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(tree, dict) or not isinstance(tree.get("_target_"), str):
        raise RecipeError(f"{source} is no recipe: it has no `_target_` at the top")
    try:
        if str(tree["_target_"]).startswith(PAXML):
            recipe_of(tree)
        else:
            from cloudai_run.recipes.nemo import schema
            from cloudai_run.recipes.nemo.tree import check, schema_id_of

            check(tree, schema.load(schema_id_of(tree)))
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from error
    return tree


def _recipe(text: str, kind: str, source: str) -> run.Partial:
    return recipe_of(load(text, kind, source))


def _without_null(value: Tree) -> Tree:
    if value is None:
        return NULL
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items()}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def _plain(value: object, path: str, depth: int) -> Tree:
    """Returns what a parser gave as a tree: null markers resolved, foreign values refused."""
    where = path.lstrip(".") or "the top"
    if depth > MAX_DEPTH:
        raise RecipeError(f"{where[:60]} is nested too deep")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        raise RecipeError(f"{where} is a {type(value).__name__}, which no recipe holds: put text in quotes")
    if "_null_" in value:
        if value != NULL:
            raise RecipeError(f"{where}: null is written {{ _null_ = true }}, with nothing else in the table")
        return None
    if keys := [key for key in value if not isinstance(key, str)]:
        raise RecipeError(
            f"{where} has the key {keys[0]!r}, which is no text: write _items_: [[key, value], ...]"
        )
    return {str(name): _plain(item, f"{path}.{name}", depth + 1) for name, item in value.items()}


def _load_json(text: str) -> object:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            raise RecipeError(f"has the key {max(names, key=names.count)} twice")
        return found

    return json.loads(text, object_pairs_hook=unique)


def _load_toml(text: str) -> object:
    import tomllib

    return tomllib.loads(text)


def _load_yaml(text: str) -> object:
    from cloudai_run.recipes import yaml_text

    return yaml_text.load(text)


_LOADERS: dict[str, Callable[[str], object]] = {"json": _load_json, "toml": _load_toml, "yaml": _load_yaml}
