"""Writes a value of a config tree in the syntax of overrides, so that reading it gives the value back."""

from __future__ import annotations

from cloudai_run.overrides.schema import Tree
from cloudai_run.overrides.text import shown


def format_value(tree: Tree) -> str:
    """Returns the text that `parse` and the type "any" read back as this value."""
    match tree:
        case None | bool() | int() | float():
            return repr(tree)
        case str():
            return repr(tree)
        case list():
            return f"[{', '.join(map(format_value, tree))}]"
        case {"_tuple_": [*items]}:
            return f"({', '.join(map(format_value, items))}{',' * (len(items) == 1)})"
        case {"_repr_": str(text)}:
            return text
        case {"_target_": str(name), "_call_": False}:
            return name
        case {"_target_": str(name)}:
            arguments = {key: item for key, item in tree.items() if not key.startswith("_")}
            factory = tree.get("_factory_")
            called = factory if isinstance(factory, str) else name
            return f"{called}({', '.join(f'{key}={format_value(item)}' for key, item in arguments.items())})"
        case dict():
            entries = (f"{key!r}: {format_value(item)}" for key, item in tree.items())
            return f"{{{', '.join(entries)}}}"


def brief(value: Tree, width: int = 40) -> str:
    """Returns a value for a message, in at most `width` characters: of a config node, the class alone."""
    return shown(_short(value), width)


def _short(value: Tree) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, dict) and "_target_" in value and "_call_" not in value:
        return f"{str(value['_target_']).rpartition('.')[2]}(...)"
    return format_value(value)
