"""YAML for recipes: PyYAML's safe reader, without what makes YAML surprising.

References are refused, since a small file can hold a huge value with them; so is a key given twice; and 1e-4 is a
number, as everybody means it, where YAML 1.1 reads text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

import yaml

from cloudai_run.recipes.errors import RecipeError

_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*)?[eE][-+]?[0-9]+$")
_FLOAT_TAG = "tag:yaml.org,2002:float"


class _Dumper(yaml.SafeDumper):
    """Writes nodes in full and lists below their key."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


class _Loader(yaml.SafeLoader):
    """Reads plain values and no references."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise RecipeError(
                f"line {event.start_mark.line + 1}: references (*{event.anchor}) are not allowed"
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise RecipeError(f"line {node.start_mark.line + 1}: the key {twice[0]} is given twice")
        return super().construct_mapping(node, deep)


for _class in (_Dumper, _Loader):
    _class.add_implicit_resolver(_FLOAT_TAG, _FLOAT, list("-+0123456789"))


def dump(tree: Mapping[str, object]) -> str:
    """Returns a tree as YAML, its keys in their own order."""
    return yaml.dump(dict(tree), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def load(text: str) -> object:
    """Returns what YAML text holds.

    Raises:
        RecipeError: The text is malformed, or uses what recipes do not allow.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise RecipeError(f"is no YAML: {error}") from error
