"""What a schema says: recipes, targets, parameters and their types.

A tree in the schema (a recipe's configuration, a default) holds JSON scalars, lists and dicts. A config node is
`{"_target_": "dotted.Name", "max_steps": 5, ...}` (with `"_partial_": true` for a Partial), a named object (torch
dtype, enum member, function, class) is `{"_target_": "torch.bfloat16", "_call_": false}`, a tuple is
`{"_tuple_": [...]}`, and a default that has no literal form is `{"_repr_": "..."}`.

A type is one of the atoms "int" "float" "bool" "str" "none" "any" "path" "dtype" "timedelta" "callable", or a list:
["union", T...] ["literal", value...] ["list", T] ["tuple", T...] (ending in "..." for any length) ["dict", K, V]
["enum", "dotted"] ["object", "dotted.Class"] ["type", "dotted.Class"].
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.suggest import did_you_mean

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
Type: TypeAlias = "str | list[Type]"


def hint(name: str, known: Iterable[str]) -> str:
    """Returns the line that suggests the nearest known names, or ''."""
    close = did_you_mean(name, known, limit=2)
    return f"\n  did you mean {' or '.join(close)}?" if close else ""


@dataclass(frozen=True)
class Param:
    """One parameter of a target.

    Attributes:
        name: Its name.
        type: Its type, in the words of this module's description.
        default: The tree of its default; None too where there is none (see `required`).
        required: Whether it has no default.
        default_factory: Whether the default is made anew for each instance (a dataclass field's factory).
        parser: How NeMo's own command line reads a value for it: "typed", "inferred" (no annotation: by its looks),
            "text" (what names nothing importable arrives as a string) or "refused" (no value is accepted).
    """

    name: str
    type: Type
    default: Tree
    required: bool
    default_factory: bool = False
    parser: str = "typed"

    @property
    def has_default(self) -> bool:
        """Whether the parameter may be left out."""
        return not self.required


@dataclass(frozen=True)
class Target:
    """One class or function that a config node can name.

    Attributes:
        name: Its dotted name, as NeMo's own exports spell it.
        kind: "class" or "function".
        dataclass: Whether it is a dataclass.
        var_kwargs: Whether it takes **kwargs, so that NeMo accepts any name.
        no_signature: Whether Python has no signature for it (then `params` come from the documentation).
        bases: Dotted names of its base classes, nearest first.
        params: Its parameters by name, in the order of its signature.
    """

    name: str
    kind: str
    dataclass: bool
    var_kwargs: bool
    no_signature: bool
    bases: tuple[str, ...]
    params: Mapping[str, Param]

    def is_a(self, class_name: str) -> bool:
        """Whether the target is that class or a subclass of it."""
        return class_name == self.name or class_name in self.bases


@dataclass(frozen=True)
class Factory:
    """One factory that NeMo registers for its command line, such as `squad` for the data module.

    Attributes:
        name: The name it is registered under.
        type: The dotted type (or parameter) that it is registered for.
        target: The dotted name of the function.
        description: The first line of its documentation.
        returns: The dotted class of the node it makes; "" where that is unknown.
        params: Its own parameters, which may be given as `name(param=value)`.
        config: The tree it makes when called without arguments; None where it needs some or could not be called.
    """

    name: str
    type: str
    target: str
    description: str
    returns: str
    params: Mapping[str, Param]
    config: Tree


@dataclass(frozen=True)
class Recipe:
    """One recipe: what NeMo's pretrain factory of that name returns.

    Attributes:
        name: The name that `nemo llm pretrain --factory` takes.
        description: The first line of its documentation.
        factory: The dotted name of the function.
        defaults: The defaults of the function's parameters (num_nodes, num_gpus_per_node ...).
        config: Its tree, holding only what the recipe sets. Read it through `Schema.recipe_tree`, which copies.
    """

    name: str
    description: str
    factory: str
    defaults: Mapping[str, Tree]
    config: dict[str, Tree]


@dataclass(frozen=True)
class Schema:
    """The recipes, factories and targets of one NeMo version.

    Attributes:
        id: The name under which the version's stand-ins live, such as "nemo_2_7_3".
        versions: The versions of nemo_toolkit, megatron-core, lightning, nemo_run and torch it was exported from.
        image: The container image it was exported in; None for an environment that is no image.
        enums: The member names of each enum that a type names.
        aliases: Other dotted names of targets and dtypes, as NeMo's packages and torch re-export them.
        names: The dotted names of other objects that a recipe or a default names: dtypes, functions, classes.
        descriptions: The recipes' one-line descriptions by name (cheaper than reading all of `recipes`).
        recipes: The recipes by name.
        factories: The registered factories by type and name.
        targets: The targets by dotted name.
    """

    id: str
    versions: Mapping[str, str]
    image: str | None
    enums: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, str]
    names: frozenset[str]
    descriptions: Mapping[str, str]
    recipes: Mapping[str, Recipe]
    factories: Mapping[str, Mapping[str, Factory]]
    targets: Mapping[str, Target]

    @property
    def title(self) -> str:
        """The NeMo version as a message names it."""
        return f"NeMo {self.versions['nemo_toolkit']}"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dotted names of torch's dtypes."""
        return tuple(
            sorted(name for name in self.names if name.startswith("torch.") and name.count(".") == 1)
        )

    def recipe_tree(self, name: str) -> dict[str, Tree]:
        """Returns a copy of a recipe's tree, which holds what the recipe sets and no defaults.

        Raises:
            RecipeError: This NeMo has no recipe of that name.
        """
        if name not in self.recipes:
            raise RecipeError(f"{self.title} has no recipe {name}" + hint(name, self.recipes))
        return copy.deepcopy(self.recipes[name].config)

    def target(self, dotted: str) -> Target:
        """Returns a target by its dotted name or by one of its aliases.

        Raises:
            RecipeError: The schema has no such target.
        """
        name = self.aliases.get(dotted, dotted)
        if name not in self.targets:
            known = [*self.targets, *self.aliases]
            raise RecipeError(f"{self.title} has no {dotted} that a recipe can use" + hint(dotted, known))
        return self.targets[name]

    def find_factory(self, name: str, returns: str) -> Factory | None:
        """Returns the registered factory of that name that makes a node of that class, or None."""
        made = (registered[name] for registered in self.factories.values() if name in registered)
        return next((factory for factory in made if factory.returns == returns), None)
