"""Small helpers to look into trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cloudai_run.recipes.nemo.schema import Tree


def node_at(tree: Mapping[str, Tree], path: str) -> dict[str, Tree]:
    """Returns the node at a dotted path."""
    node = dict(tree)
    for name in path.split("."):
        inner = node[name]
        assert isinstance(inner, dict), f"{path} is no node"
        node = inner
    return node


def flattened(tree: Tree | Mapping[str, Tree], path: str = "") -> Iterator[str]:
    """Yields `path: value` for each leaf of a tree, and the target of each node."""
    if isinstance(tree, Mapping) and tree.get("_call_") is False:
        yield f"{path}: {tree['_target_']}"
    elif isinstance(tree, Mapping):
        if "_target_" in tree:
            yield f"{path or '<root>'}: {tree['_target_']}"
        for name, value in tree.items():
            if not name.startswith("_"):
                yield from flattened(value, f"{path}.{name}" if path else name)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from flattened(value, f"{path}[{index}]")
    else:
        yield f"{path}: {tree!r}"
