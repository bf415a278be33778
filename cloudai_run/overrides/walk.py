"""Finds the place in a config tree that a path means."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum

from cloudai_run.overrides.objects import target_of
from cloudai_run.overrides.schema import (
    ANY,
    SchemaLike,
    TargetLike,
    Tree,
    TypeSpec,
    element_type,
    form,
    members,
    value_type,
)
from cloudai_run.overrides.text import Path

Container = dict[str, Tree] | list[Tree]


class Unset(Enum):
    """The marker of a parameter that the tree does not set."""

    UNSET = "unset"


UNSET = Unset.UNSET


class Lost(Exception):
    """A path leaves the tree.

    Attributes:
        at: the part of the path that exists.
        name: the name or index that does not exist there.
        node: the value at `at`, or UNSET.
    """

    def __init__(self, at: Path, name: str | int, node: Tree | Unset) -> None:
        super().__init__(at, name)
        self.at, self.name, self.node = at, name, node


@dataclass(frozen=True, slots=True)
class Place:
    """One value of the tree: where it stands, its type and its default.

    Attributes:
        path: with list indexes counted from the start.
        known: false for an argument of a **kwargs node that neither the schema nor the recipe names.
    """

    container: Container
    path: Path
    spec: TypeSpec = ANY
    default: Tree | Unset = UNSET
    known: bool = True

    def current(self) -> Tree | Unset:
        """Returns the value that the tree sets here."""
        key = self.path[-1]
        if isinstance(self.container, list):
            return self.container[key] if isinstance(key, int) else UNSET
        return self.container.get(str(key), UNSET)

    def effective(self) -> Tree | Unset:
        """Returns the value that the tree sets here, else the default."""
        current = self.current()
        return self.default if current is UNSET else current

    def put(self, value: Tree) -> None:
        """Sets the value here, in the tree that the place belongs to."""
        key = self.path[-1]
        if isinstance(self.container, list):
            assert isinstance(key, int)
            self.container[key] = value
        else:
            self.container[str(key)] = value


def is_node(value: Tree | Unset) -> bool:
    """Says whether a value is a config node (and not a dict, a tuple or a named object)."""
    return isinstance(value, dict) and isinstance(value.get("_target_"), str) and "_call_" not in value


def node_target(node: dict[str, Tree], schema: SchemaLike) -> TargetLike | None:
    """Returns the schema's target of a config node; None for one that the schema does not know."""
    return target_of(str(node["_target_"]), schema)


def find(tree: dict[str, Tree], path: Path, schema: SchemaLike) -> Place:
    """Returns the place that `path` means.

    Where the path goes through a parameter that is not set and whose default is a node, a list or a dict, a
    copy of the default is set in `tree` first.

    Raises:
        Lost: the path leaves the tree.
    """
    container: Container = tree
    spec: TypeSpec = ANY
    place: Place | None = None
    for depth, segment in enumerate(path):
        if place is not None:
            if not place.known:
                raise Lost(place.path[:-1], place.path[-1], place.container)
            container, spec = _enter(place, segment), place.spec
        at = place.path if place is not None else path[:depth]
        place = _element(container, spec, at, segment) or _member(container, spec, at, segment, schema)
    assert place is not None
    return place


def _enter(place: Place, segment: str | int) -> Container:
    value = place.effective()
    if value in (None, UNSET) and place.current() is UNSET and _takes_dict(place.spec):
        value = {}
    if not isinstance(value, (dict, list)) or "_call_" in value or "_repr_" in value:
        raise Lost(place.path, segment, value)
    if place.current() is UNSET:
        value = deepcopy(value)
        place.put(value)
    if isinstance(value, dict) and isinstance(items := value.get("_tuple_"), list):
        return items
    return value


def _takes_dict(spec: TypeSpec) -> bool:
    return any(form(member)[0] == "dict" for member in members(spec))


def _element(container: Container, spec: TypeSpec, at: Path, segment: str | int) -> Place | None:
    if not isinstance(container, list):
        return None
    if isinstance(segment, str) or not -len(container) <= segment < len(container):
        raise Lost(at, segment, container)
    index = segment % len(container)
    return Place(container, (*at, index), element_type(spec, index))


def _member(container: Container, spec: TypeSpec, at: Path, segment: str | int, schema: SchemaLike) -> Place:
    assert isinstance(container, dict)
    if isinstance(segment, int) or (segment.startswith("_") and segment.endswith("_")):
        raise Lost(at, segment, container)
    if not is_node(container):
        return Place(container, (*at, segment), value_type(spec))
    target = node_target(container, schema)
    param = target.params.get(segment) if target is not None else None
    if param is not None:
        default = as_tree(param.default) if param.has_default else UNSET
        return Place(container, (*at, segment), param.type, default)
    if target is None or target.var_kwargs:
        return Place(container, (*at, segment), known=segment in container)
    raise Lost(at, segment, container)


def as_tree(value: object) -> Tree:
    """Narrows a default of the schema: it is data in the encoding of trees."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [as_tree(item) for item in value]
        case dict():
            return {str(key): as_tree(item) for key, item in value.items()}
    raise TypeError(f"a default of the schema is a {type(value).__name__}")


def nodes(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, dict[str, Tree]]]:
    """Yields each config node of a tree with its path, the outer ones first."""
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from nodes(item, (*path, index))
    elif isinstance(tree, dict):
        if isinstance(items := tree.get("_tuple_"), list):
            yield from nodes(items, path)
            return
        if is_node(tree):
            yield path, tree
        for key, item in tree.items():
            yield from nodes(item, (*path, key))
