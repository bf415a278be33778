"""Recipes as plain trees and back: what files, overrides and the command line work on.

A tree is what `schema_model` describes. Beside the schema's own forms, a dict whose keys are not all plain text is
`{"_items_": [[key, value], ...]}`, and a node made by one of NeMo's registered factories carries
`"_factory_": "squad"` (with `"_factory_args_": {...}` if the factory was given arguments). A tree has no sharing: a
node that a config holds in two places becomes two equal nodes.
"""

from __future__ import annotations

import datetime
import difflib
import enum
import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import remote
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.schema import PRETRAIN, Schema, Tree
from cloudai_run.recipes.nemo.schema_model import hint
from cloudai_run.recipes.nemo.workload import Workload

if TYPE_CHECKING:
    import nemo_run as run

MARKS = (
    "_target_",
    "_partial_",
    "_call_",
    "_tuple_",
    "_items_",
    "_repr_",
    "_null_",
    "_factory_",
    "_factory_args_",
)
# NeMo takes any name where there are **kwargs and drops it: save_lst instead of save_last must not pass.
SLIP = 0.85
_OWN = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in (Workload,)}


def to_tree(recipe: object) -> dict[str, Tree]:
    """Returns the tree of a recipe's config, or of what building that config gave.

    Raises:
        RecipeError: A value has no form in a tree; the message gives its path.
    """
    tree = _encode(recipe, "")
    if not isinstance(tree, dict) or "_target_" not in tree:
        raise RecipeError(f"{recipe!r} is no recipe: a config node is needed")
    return tree


def _encode(value: object, path: str) -> Tree:
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, list):
        return [_encode(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"_tuple_": [_encode(item, f"{path}[{index}]") for index, item in enumerate(value)]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key not in MARKS for key in value):
            return {key: _encode(item, f"{path}.{key}") for key, item in value.items()}
        return {"_items_": [[_encode(k, path), _encode(v, f"{path}[{k!r}]")] for k, v in value.items()]}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, datetime.timedelta):
        parts = {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}
        return {"_target_": "datetime.timedelta", **{name: part for name, part in parts.items() if part}}
    node = _node_of(value)
    if node is None:
        try:
            return {"_target_": remote.name_of(value), "_call_": False}
        except RecipeError as error:
            raise RecipeError(f"{path.lstrip('.') or 'recipe'}: {error}") from error
    target, is_partial, arguments = node
    tree: dict[str, Tree] = {"_target_": remote.name_of(target)}
    if is_partial:
        tree["_partial_"] = True
    if factory := remote.factory_of(target):
        tree["_factory_"] = factory
    if any(not isinstance(name, str) for name in arguments):
        raise RecipeError(f"{path.lstrip('.') or 'recipe'} has positional arguments: give them by name")
    return tree | {str(name): _encode(argument, f"{path}.{name}") for name, argument in arguments.items()}


def _node_of(value: object) -> tuple[Callable[..., object], bool, dict[str | int, object]] | None:
    """Returns a node's target, whether it is a Partial, and its arguments; None for what is no node."""
    import fiddle as fdl

    if isinstance(value, fdl.Buildable):
        return fdl.get_callable(value), isinstance(value, fdl.Partial), dict(value.__arguments__)
    if isinstance(value, functools.partial):
        return value.func, True, {**dict(enumerate(value.args)), **value.keywords}
    if isinstance(value, remote.StandIn):
        return type(value), False, {**value._arguments_}
    if isinstance(value, remote.Built):
        return value.function, value.is_root, {**value._arguments_}
    if is_dataclass(value) and not isinstance(value, type) and type(value) in _OWN.values():
        return type(value), False, {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def from_tree(tree: Mapping[str, Tree], schema_id: str | None = None) -> run.Partial:
    """Returns the recipe of a tree: the exact inverse of `to_tree`.

    Args:
        tree: A recipe's whole tree, with its `workload`.
        schema_id: The schema whose stand-ins are used; None takes the one that the workload names.

    Raises:
        RecipeError: The tree names something that the schema does not have; the message gives its path.
    """
    import nemo_run as run

    used = schema_id or schema_id_of(tree)
    check(tree, schemas.load(used))
    recipe = _decode(dict(tree), used)
    if not isinstance(recipe, run.Partial):
        raise RecipeError("the tree is no recipe: its root needs `_partial_: true`")
    return recipe


def schema_id_of(tree: Mapping[str, Tree]) -> str:
    """Returns the schema id that a tree's workload names, or the shipped schema's."""
    workload = tree.get("workload")
    named = workload.get("schema_id") if isinstance(workload, dict) else None
    return named if isinstance(named, str) else schemas.DEFAULT_ID


def _decode(value: Tree, schema_id: str) -> object:
    import nemo_run as run

    if isinstance(value, list):
        return [_decode(item, schema_id) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(items := value.get("_tuple_"), list):
        return tuple(_decode(item, schema_id) for item in items)
    if isinstance(items := value.get("_items_"), list):
        pairs = [item for item in items if isinstance(item, list)]
        return {_decode(key, schema_id): _decode(item, schema_id) for key, item in pairs}
    arguments = {name: _decode(item, schema_id) for name, item in value.items() if name not in MARKS}
    if "_target_" not in value:
        return arguments
    target = _target(value, schema_id)
    if value.get("_call_") is False:
        return target
    if "_factory_args_" in value:
        arguments["_factory_args_"] = _decode(value["_factory_args_"], schema_id)
    make = run.Partial if value.get("_partial_") else run.Config
    # What is already a config needs none of the conversions that binding does, which take most of the time.
    return make(target, bind_args=False, **arguments)


def _target(node: Mapping[str, Tree], schema_id: str) -> Callable[..., object]:
    name = str(node["_target_"])
    if name in _OWN:
        return _OWN[name]
    if isinstance(made_by := node.get("_factory_"), str):
        schema = schemas.load(schema_id)
        factory = schema.find_factory(made_by, schema.aliases.get(name, name))
        assert factory is not None, "check() has found it"
        return remote.factory_standin(schema_id, factory)
    return remote.standin(schema_id, name)


def check(tree: Tree | Mapping[str, Tree], schema: Schema, path: str = "") -> None:
    """Checks that every name in a tree is one that the schema knows; values and their types are not looked at.

    Raises:
        RecipeError: The first unknown name or malformed node, with its path.
    """
    where = path.lstrip(".") or "recipe"
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            check(item, schema, f"{path}[{index}]")
    if not isinstance(tree, Mapping):
        return
    if not path and tree.get("_target_") != PRETRAIN:
        raise RecipeError(f"the tree is no recipe: its `_target_` is {tree.get('_target_')}, not {PRETRAIN}")
    if any(not isinstance(name, str) for name in tree):
        raise RecipeError(
            f"{where} has a key that is no text: write such a dict as `_items_: [[key, value], ...]`"
        )
    if "_target_" in tree:
        _check_node(tree, schema, where)
    elif "_tuple_" in tree or "_items_" in tree:
        _check_collection(tree, where)
    elif marks := sorted(set(tree) & set(MARKS)):
        raise RecipeError(f"{where} has {', '.join(marks)} without a `_target_`")
    for name, item in tree.items():
        if name not in ("_target_", "_partial_", "_call_", "_factory_"):
            check(
                item, schema, path if name in ("_tuple_", "_items_", "_factory_args_") else f"{path}.{name}"
            )


def _check_collection(tree: Mapping[str, Tree], where: str) -> None:
    mark = "_tuple_" if "_tuple_" in tree else "_items_"
    items = tree[mark]
    if len(tree) != 1 or not isinstance(items, list):
        raise RecipeError(f"{where}: `{mark}` takes a list and stands alone")
    for item in items if mark == "_items_" else []:
        if not isinstance(item, list) or len(item) != 2 or not _can_be_key(item[0]):
            raise RecipeError(f"{where}: `_items_` takes pairs of a key and a value")


def _can_be_key(tree: Tree) -> bool:
    is_named = isinstance(tree, dict) and (tree.get("_call_") is False or "_tuple_" in tree)
    return is_named or not isinstance(tree, (list, dict))


def _is_slip(name: str, known: list[str]) -> bool:
    """Whether a name for **kwargs is so near a known one that it is taken for a misspelling of it."""
    return any(difflib.SequenceMatcher(None, name, other).ratio() >= SLIP for other in known)


def _check_node(node: Mapping[str, Tree], schema: Schema, where: str) -> None:
    name = node["_target_"]
    if not isinstance(name, str):
        raise RecipeError(f"{where}: `_target_` is {name!r}, not a dotted name")
    if node.get("_call_", False) is not False or node.get("_partial_", True) is not True:
        raise RecipeError(f"{where}: `_call_` can only be false and `_partial_` only true")
    given = [argument for argument in node if argument not in MARKS]
    if node.get("_call_") is False:
        if given or not remote.is_known(schema.id, name):
            reason = f"takes no {given[0]}" if given else f"is nothing that {schema.title}'s recipes name"
            raise RecipeError(f"{where}: {name} {reason}")
        return
    if name in _OWN:
        known, takes_any = [field.name for field in fields(_OWN[name])], False
    else:
        target = schema.target(name) if name in schema.aliases or name in schema.targets else None
        if target is None:
            suggestion = hint(name, [*schema.targets, *schema.aliases])
            raise RecipeError(f"{where}: {schema.title} has no {name} that a recipe can use{suggestion}")
        known, takes_any = (
            [*target.params, *(["workload"] if target.name == PRETRAIN else [])],
            target.var_kwargs,
        )
    made_by = node.get("_factory_")
    if made_by is not None and schema.find_factory(str(made_by), schema.aliases.get(name, name)) is None:
        raise RecipeError(f"{where}: {schema.title} has no factory {made_by} that makes a {name}")
    if "_factory_args_" in node and (made_by is None or not isinstance(node["_factory_args_"], Mapping)):
        raise RecipeError(f"{where}: `_factory_args_` holds the arguments of a `_factory_`")
    for argument in given:
        if argument not in known and (not takes_any or _is_slip(argument, known)):
            listed = ", ".join(known[:8]) + (" ..." if len(known) > 8 else "")
            suggestion = hint(argument, known) or f"\n  it takes {listed or 'none'}"
            raise RecipeError(f"{where} ({name}) has no parameter {argument}{suggestion}")
