"""The same type checks for a whole config tree, such as one from a file that a user has edited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from cloudai_run.overrides.convert import convert
from cloudai_run.overrides.expr import Expr
from cloudai_run.overrides.files import from_tree
from cloudai_run.overrides.formatting import format_value
from cloudai_run.overrides.messages import Naming, known_names, mismatch, unknown
from cloudai_run.overrides.mismatch import Mismatch, describe
from cloudai_run.overrides.names import is_slip
from cloudai_run.overrides.schema import SchemaLike, TargetLike, Tree, TypeSpec, form, members
from cloudai_run.overrides.text import Path
from cloudai_run.overrides.walk import UNSET, Place, as_tree, is_node, node_target, nodes
from cloudai_run.overrides.words import Override

# A node may stand where its class, a function that makes it, or anything is allowed.
_OPEN_FORMS = ("any", "callable")


def check_tree(
    tree: Mapping[str, Tree], recipe_tree: Mapping[str, Tree], schema: SchemaLike, naming: Naming
) -> None:
    """Checks names and types of everything in a tree that the recipe does not set just so itself.

    Raises:
        UserError: the first value that does not fit, with its path.
    """
    whole = dict(tree)
    before = dict(nodes(dict(recipe_tree)))
    for path, node in nodes(whole):
        target = node_target(node, schema)
        same = before.get(path, {})
        if target is None:
            continue
        for name in _changed(node, same if same.get("_target_") == node["_target_"] else {}):
            _check_argument(node, target, (*path, name), whole, schema, naming)


def _changed(node: Mapping[str, Tree], before: Mapping[str, Tree]) -> Iterator[str]:
    for name, value in node.items():
        marked = name.startswith("_") and name.endswith("_")
        if not marked and (name not in before or json.dumps(before[name]) != json.dumps(value)):
            yield name


def _check_argument(
    node: dict[str, Tree],
    target: TargetLike,
    path: Path,
    tree: dict[str, Tree],
    schema: SchemaLike,
    naming: Naming,
) -> None:
    name = str(path[-1])
    value, param = node[name], target.params.get(name)
    if param is None:
        others = [other for other in known_names(node, target) if other != name]
        if not target.var_kwargs or is_slip(name, others):
            bare = {key: item for key, item in node.items() if key != name}
            raise unknown(_override(path, value), path[:-1], name, bare, tree, schema, naming)
        return
    try:
        if is_node(value) and isinstance(value, dict):
            _check_class(value, param.type, schema)
        elif not any(nodes(value)):
            convert(param.type, from_tree(value), schema, top=False)
    except Mismatch as error:
        place = Place({}, path, param.type, as_tree(param.default) if param.has_default else UNSET)
        raise mismatch(error, _override(path, value), place, str(node["_target_"]), schema, naming) from None


def _check_class(node: dict[str, Tree], spec: TypeSpec, schema: SchemaLike) -> None:
    target = node_target(node, schema)
    name = str(node["_target_"])
    wanted = [str(args[0]) for kind, args in map(form, members(spec)) if kind == "object"]
    is_open = any(form(member)[0] in _OPEN_FORMS for member in members(spec))
    is_timedelta = name == "datetime.timedelta" and "timedelta" in [form(m)[0] for m in members(spec)]
    if is_open or is_timedelta or target is None or target.kind != "class":
        return
    if not any(base == name or base in target.bases for base in wanted):
        raise Mismatch(f"expects {describe(spec)}, got the class {name}")


def _override(path: Path, value: Tree) -> Override:
    text = format_value(value)
    expr: Expr = from_tree(value)
    return Override(text, path, "=", text, False, expr)
