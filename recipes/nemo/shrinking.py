"""A config tree while it is shrunk, and the record of what of the user's was set back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cloudai_run.recipes.nemo.command import is_node, param_of, same_tree
from cloudai_run.recipes.nemo.schema import Schema, Tree
from cloudai_run.recipes.nemo.tree import MARKS


@dataclass
class Shrinking:
    """A tree while it is shrunk.

    Attributes:
        tree: The tree as it has become.
        given: The tree as it was; what differs from the recipe in it is the user's.
        recipe: The recipe's own tree.
        schema: What is known of the NeMo that the tree is for.
    """

    tree: dict[str, Tree]
    given: Mapping[str, Tree]
    recipe: Mapping[str, Tree]
    schema: Schema
    _set_back: list[str] = field(default_factory=list)

    @property
    def resets(self) -> list[str]:
        """What of the user's was set back, one text for each path."""
        pairs = [(path, show(_value_at(self.given, path)), show(self.get(path))) for path in self._set_back]
        return [f"{path} {before} -> {after}" for path, before, after in pairs if before != after]

    def get(self, path: str) -> Tree:
        """Returns the value at a path, or the default if it is not set; None if there is no such path."""
        parent, _, name = path.rpartition(".")
        node = node_at(self.tree, parent)
        if name in node or "_target_" not in node:
            return node.get(name)
        return param_of(self.schema.target(str(node["_target_"])), name).default

    def has(self, path: str) -> bool:
        """Says whether the node above a path takes the parameter that it names."""
        parent, _, name = path.rpartition(".")
        target = node_at(self.tree, parent).get("_target_")
        return target is not None and name in self.schema.target(str(target)).params

    def is_users(self, path: str) -> bool:
        """Says whether the value at a path is still what the user set, and not the recipe's."""
        parent, _, name = path.rpartition(".")
        now, given, recipes = (node_at(tree, parent) for tree in (self.tree, self.given, self.recipe))
        is_given = name in now and name in given and same_tree(now[name], given[name])
        return is_given and (name not in recipes or not same_tree(given[name], recipes[name]))

    def put(self, path: str, value: Tree) -> None:
        """Sets a value where it differs and the node takes it."""
        if not same_tree(self.get(path), value) and self.has(path):
            if self.is_users(path):
                self._set_back.append(path)
            parent, _, name = path.rpartition(".")
            node_at(self.tree, parent)[name] = value

    def shrink(self, path: str, size: int, largest: int) -> None:
        """Sets a size, unless the user's own is small enough."""
        before = self.get(path)
        is_small = isinstance(before, int) and 0 < before <= largest
        if before is not None and not (is_small and self.is_users(path)):
            self.put(path, size)

    def size(self, path: str, default: int) -> int:
        """Returns a whole number at a path."""
        value = self.get(path)
        return value if isinstance(value, int) else default


def node_at(tree: Mapping[str, Tree], path: str) -> dict[str, Tree]:
    """Returns the dict at a path, to be changed in place; an empty one if there is none."""
    node: Tree = tree if isinstance(tree, dict) else dict(tree)
    for name in path.split(".") if path else ():
        node = node.get(name) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def _value_at(tree: Mapping[str, Tree], path: str) -> Tree:
    parent, _, name = path.rpartition(".")
    return node_at(tree, parent).get(name)


def show(value: Tree) -> str:
    """Returns a value as a reset names it: a node by its factory or class."""
    if is_node(value):
        return str(value.get("_factory_") or str(value["_target_"]).rpartition(".")[2])
    return str(value)


def argument_paths(node: Mapping[str, Tree], above: str = "") -> Iterator[str]:
    """Yields the path of each argument of each node, but for those in lists."""
    for name, value in node.items():
        if name not in MARKS and (above or name != "workload"):
            path = f"{above}.{name}" if above else name
            yield path
            if is_node(value):
                yield from argument_paths(value, path)
