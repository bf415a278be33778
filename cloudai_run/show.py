"""A recipe's parameters as a table: path, value, type, default and who set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cloudai_run.errors import UserError
from cloudai_run.frameworks import Framework
from cloudai_run.overrides import Naming, apply_recorded, format_value, parse
from cloudai_run.overrides.mismatch import describe
from cloudai_run.overrides.schema import Tree
from cloudai_run.overrides.text import join_path
from cloudai_run.overrides.words import parse_path
from cloudai_run.recipes.suggest import did_you_mean


@dataclass(frozen=True)
class Row:
    """One parameter.

    Attributes:
        path: as it is typed in an override.
        value: as it is typed in an override; a node shows its class.
        type: in words.
        default: of the class, as it would be typed; None where it is required.
        set_by: `recipe`, `override` or `default`.
        node: whether the value is a node, whose parameters are rows of their own.
    """

    path: str
    value: str
    type: str
    default: str | None
    set_by: str
    node: bool = False

    def as_json(self) -> dict[str, object]:
        """Returns the row for `--json`."""
        return {
            "path": self.path,
            "value": self.value,
            "type": self.type,
            "default": self.default,
            "set_by": self.set_by,
        }


def rows_of(framework: Framework, path: str, words: Sequence[str], *, every: bool = False) -> list[Row]:
    """Returns the rows under a path.

    Args:
        framework: the recipe.
        path: `trainer.strategy`, or empty for all.
        words: overrides to apply first.
        every: with an empty path, show parameters at their defaults too.

    Raises:
        UserError: the path names nothing.
    """
    naming = Naming.recipe(framework.recipe)
    applied = apply_recorded(parse(words), framework.recipe_tree(), framework.schema, naming)
    tree: Tree = applied.tree
    parts = parse_path(path, path) if path else ()
    at: tuple[str | int, ...] = ()
    for part in parts:
        tree = _child(framework, tree, part, at)
        at = (*at, part)
    overridden = frozenset(applied.set_by)
    if not isinstance(tree, (dict, list)) or (isinstance(tree, dict) and "_call_" in tree):
        parent = rows_of(framework, join_path(at[:-1]), words, every=True)
        return [row for row in parent if row.path == path]
    return list(_rows(framework, tree, at, overridden, every or bool(path), bool(path)))


def _child(framework: Framework, tree: Tree, part: str | int, at: tuple[str | int, ...]) -> Tree:
    if isinstance(tree, list) and isinstance(part, int) and -len(tree) <= part < len(tree):
        return tree[part]
    if isinstance(tree, dict) and isinstance(part, str):
        if part in tree:
            return tree[part]
        params = _params(framework, tree)
        if part in params:
            return getattr(params[part], "default", None)
        known = [*params, *(name for name in tree if not name.startswith("_"))]
        near = did_you_mean(part, known)
        where = join_path(at) or framework.recipe
        prefix = f"{join_path(at)}." if at else ""
        raise UserError(
            f"{framework.recipe} has no parameter {prefix}{part}\n"
            + (f"  did you mean {', '.join(prefix + name for name in near)}?\n" if near else "")
            + f"  all of {where}: cloudai-run show {framework.recipe} {join_path(at)}".rstrip()
        )
    raise UserError(
        f"{framework.recipe}: {join_path(at)} has no parts, so there is no {join_path((*at, part))}"
    )


def _params(framework: Framework, node: Mapping[str, Tree]) -> Mapping[str, object]:
    name = node.get("_target_")
    target = framework.schema.targets.get(framework.schema.aliases.get(str(name), str(name)))
    return target.params if target else {}


def _rows(
    framework: Framework,
    tree: dict[str, Tree] | list[Tree],
    at: tuple[str | int, ...],
    overridden: frozenset[str],
    defaults: bool,
    shallow: bool,
) -> Iterator[Row]:
    """Rows of a node's parameters: those that are set, and with `defaults` the others too."""
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _value_rows(framework, item, (*at, index), None, overridden, defaults, shallow)
        return
    params = _params(framework, tree)
    names = [name for name in tree if not name.startswith("_")]
    if defaults:
        names += [name for name in params if name not in tree]
    for name in names:
        if name in tree:
            yield from _value_rows(
                framework, tree[name], (*at, name), params.get(name), overridden, defaults, shallow
            )
        else:
            default = _default(params[name])
            shown = "(required)" if default is None else default
            yield Row(join_path((*at, name)), shown, _type(params[name]), default, "default")


def _value_rows(
    framework: Framework,
    value: Tree,
    at: tuple[str | int, ...],
    param: object,
    overridden: frozenset[str],
    defaults: bool,
    shallow: bool,
) -> Iterator[Row]:
    path = join_path(at)
    set_by = "override" if path in overridden else "recipe"
    default = _default(param) if param is not None else None
    is_node = isinstance(value, dict) and "_target_" in value and "_call_" not in value
    nodes_inside = isinstance(value, list) and any(
        isinstance(item, dict) and "_target_" in item for item in value
    )
    if is_node and isinstance(value, dict):
        yield Row(path, str(value["_target_"]), _type(param), default, set_by, node=True)
    elif nodes_inside:
        yield Row(
            path,
            f"list of {len(value)}" if isinstance(value, list) else "",
            _type(param),
            default,
            set_by,
            True,
        )
    else:
        yield Row(path, format_value(value), _type(param), default, set_by)
    if (is_node or nodes_inside) and not shallow and isinstance(value, (dict, list)):
        yield from _rows(framework, value, at, overridden, defaults, shallow)


def _default(param: object) -> str | None:
    if not getattr(param, "has_default", False):
        return None
    value = getattr(param, "default", None)
    if isinstance(value, dict) and "_repr_" in value:
        return str(value["_repr_"])
    return format_value(value)


def _type(param: object) -> str:
    return describe(getattr(param, "type", "any")) if param is not None else "any"


def text_of(recipe: str, path: str, rows: Sequence[Row]) -> str:
    """Returns the table for a terminal; names in it can be typed as they stand."""
    width = min(60, max((len(row.path) for row in rows), default=0))
    lines = [f"{recipe} {path}".rstrip()]
    for row in rows:
        marks = {"recipe": "recipe", "override": "override", "default": ""}[row.set_by]
        value = row.value if len(row.value) <= 70 else f"{row.value[:67]}..."
        default = "" if row.default is None or row.default == row.value else f", default {row.default[:40]}"
        note = f"{row.type}{default}{f', set by the {marks}' if marks else ''}"
        lines.append(f"  {row.path:<{width}} = {value}  # {note}")
    if not path:
        lines.append(f"  parameters at their defaults: cloudai-run show {recipe} --all")
    return "\n".join(lines)
