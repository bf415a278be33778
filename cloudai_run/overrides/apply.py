"""Applies overrides to a config tree, checked against the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cloudai_run.overrides.convert import convert
from cloudai_run.overrides.messages import Naming, clash, known_names, lost, mismatch, unknown
from cloudai_run.overrides.mismatch import Mismatch
from cloudai_run.overrides.names import is_slip
from cloudai_run.overrides.operators import operate
from cloudai_run.overrides.schema import SchemaLike, Tree
from cloudai_run.overrides.text import Path, join_path
from cloudai_run.overrides.walk import Lost, Place, find, is_node, node_target
from cloudai_run.overrides.words import Override


@dataclass(frozen=True)
class Applied:
    """A tree with overrides applied.

    Attributes:
        tree: the resulting config tree; it holds final values only.
        set_by: which overrides wrote a value, by its dotted path, in their order.
    """

    tree: dict[str, Tree]
    set_by: Mapping[str, tuple[Override, ...]]


def apply(
    overrides: Sequence[Override], tree: Mapping[str, Tree], schema: SchemaLike, recipe_name: str
) -> dict[str, Tree]:
    """Returns the recipe's tree with the overrides applied from left to right; `tree` itself stays as it is.

    Raises:
        UserError: an override names nothing, does not fit its type, or contradicts another one.
    """
    return apply_recorded(overrides, tree, schema, Naming.recipe(recipe_name)).tree


def apply_recorded(
    overrides: Sequence[Override], tree: Mapping[str, Tree], schema: SchemaLike, naming: Naming
) -> Applied:
    """Returns the tree with the overrides applied and the record of which override set which path.

    Raises:
        UserError: as for `apply`.
    """
    application = _Application({key: copy_tree(value) for key, value in tree.items()}, schema, naming)
    for override in overrides:
        application.apply(override)
    set_by: dict[str, tuple[Override, ...]] = {}
    for path, override in application.record:
        name = join_path(path)
        set_by[name] = (*set_by.get(name, ()), override)
    return Applied(application.tree, set_by)


def copy_tree(tree: Tree) -> Tree:
    """Returns a deep copy of a config tree (several times faster than copy.deepcopy)."""
    if isinstance(tree, dict):
        return {key: copy_tree(value) for key, value in tree.items()}
    return [copy_tree(value) for value in tree] if isinstance(tree, list) else tree


@dataclass(slots=True)
class _Application:
    """The state while overrides are applied to one private copy of a tree."""

    tree: dict[str, Tree]
    schema: SchemaLike
    naming: Naming
    record: list[tuple[Path, Override]] = field(default_factory=list)

    def apply(self, override: Override) -> None:
        place = self.place(override)
        try:
            if override.operator == "=":
                value = convert(place.spec, override.value, self.schema)
                if self.repeats(override, place, value):
                    return
            else:
                value = operate(place.effective(), override.operator, override.value, place.spec, self.schema)
        except Mismatch as error:
            node_type = str(place.container.get("_target_", "")) if isinstance(place.container, dict) else ""
            raise mismatch(error, override, place, node_type, self.schema, self.naming) from None
        place.put(value)
        self.record.append((place.path, override))

    def place(self, override: Override) -> Place:
        try:
            place = find(self.tree, override.path, self.schema)
        except Lost as error:
            raise self.lost(error, override) from None
        if not place.known:
            self.check_mark(override, place)
        return place

    def lost(self, error: Lost, override: Override) -> Exception:
        said = lost(error, override, self.tree, self.schema, self.naming)
        causes = [before for path, before in self.record if path == error.at]
        if is_node(error.node) or isinstance(error.node, list) or not causes:
            return said
        first, *rest = str(said).split("\n")
        return type(said)("\n".join([f"{first} (set by {self.naming.word(causes[-1])})", *rest]))

    def check_mark(self, override: Override, place: Place) -> None:
        node, name = place.container, str(place.path[-1])
        assert isinstance(node, dict)
        slip = is_slip(name, known_names(node, node_target(node, self.schema)))
        if slip or not override.marked:
            at = place.path[:-1]
            raise unknown(override, at, name, node, self.tree, self.schema, self.naming)

    def repeats(self, override: Override, place: Place, value: Tree) -> bool:
        """Says whether an assignment only repeats an earlier one.

        Raises:
            UserError: it would drop what an earlier override set here or below.
        """
        size = len(place.path)
        earlier = [(path, before) for path, before in self.record if path[:size] == place.path]
        if not earlier:
            return False
        same = all(path == place.path and before.operator == "=" for path, before in earlier)
        if same and json.dumps(place.current()) == json.dumps(value):
            return True
        path, before = earlier[-1]
        raise clash(override, before, path == place.path, self.naming)
