"""Names and one-line descriptions of all recipes, without importing anything that is slow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import catalogue as paxml

if TYPE_CHECKING:
    import nemo_run as run


@dataclass(frozen=True)
class Entry:
    """A recipe: what makes it, and what it runs.

    Attributes:
        framework: "nemo" or "paxml".
        description: One line.
        factory: Where its factory is, as `module:function`; of NeMo's other recipes, a function that takes the name.
    """

    framework: str
    description: str
    factory: str


_NEMO = {
    "llama3_8b": "Llama 3 8B, sequence length 8192",
    "llama3_70b": "Llama 3 70B, sequence length 8192",
    "llama31_8b": "Llama 3.1 8B, sequence length 8192",
    "llama31_70b": "Llama 3.1 70B, sequence length 8192",
    "llama31_405b": "Llama 3.1 405B, sequence length 8192",
    "nemotron4_15b": "Nemotron-4 15B, sequence length 4096",
    "nemotron4_340b": "Nemotron-4 340B, sequence length 4096",
    "mixtral_8x7b": "Mixtral 8x7B, mixture of 8 experts, sequence length 4096",
    "gpt3_175b": "GPT-3 175B, sequence length 2048",
}
_NAMED: dict[str, Entry] = {
    **{
        name: Entry("nemo", description, f"cloudai_run.recipes.nemo:{name}")
        for name, description in _NEMO.items()
    },
    **{
        name: Entry(entry["framework"], entry["description"], entry["factory"])
        for name, entry in paxml.RECIPES.items()
    },
}


def _others() -> dict[str, Entry]:
    """Returns the recipes that only the schemas name: NeMo's others, and those of a user's own NeMo."""
    from cloudai_run.recipes.nemo import schema

    found: dict[str, Entry] = {}
    for schema_id in schema.schema_files():
        for name, description in schema.load(schema_id).descriptions.items():
            if name not in _NAMED:
                found[name] = Entry("nemo", description, "cloudai_run.recipes.nemo:nemo_recipe")
    return found


class _Recipes(Mapping[str, Entry]):
    """All recipes by name; the schemas are only read for a name that is not one of the project's own."""

    def __getitem__(self, name: str) -> Entry:
        return _NAMED[name] if name in _NAMED else _others()[name]

    def __contains__(self, name: object) -> bool:
        return name in _NAMED or name in _others()

    def __iter__(self) -> Iterator[str]:
        return iter({**_NAMED, **_others()})

    def __len__(self) -> int:
        return len({**_NAMED, **_others()})


RECIPES: Mapping[str, Entry] = _Recipes()


def descriptions(every: bool = False) -> dict[str, dict[str, str]]:
    """Returns framework and description of each recipe by name: the project's own, or with `every` all."""
    entries = {**_NAMED, **(_others() if every else {})}
    return {
        name: {"framework": entry.framework, "description": entry.description}
        for name, entry in entries.items()
    }


def find_factory(name: str) -> Callable[..., run.Partial]:
    """Returns the function that makes a recipe, to be called with its size and settings.

    Raises:
        KeyError: There is no such recipe.
    """
    entry = RECIPES[name]
    module, _, function = entry.factory.partition(":")
    made = getattr(importlib.import_module(module), function)
    if name in _NAMED:
        return made

    def with_name(*args: object, **settings: object) -> run.Partial:
        return made(name, *args, **settings)

    return with_name
