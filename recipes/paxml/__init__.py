"""PAXML benchmarks: GPT, Grok, Nemotron-4, and any other experiment class.

A factory returns a `run.Partial` of `task.pretrain`; `catalogue.RECIPES` names them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import nemo_run as run


def __getattr__(name: str) -> Callable[..., run.Partial]:
    """Returns the factory of a recipe by its name: `recipes.paxml.grok1`."""
    import importlib

    from cloudai_run.recipes.paxml.catalogue import RECIPES

    if name not in RECIPES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, function = RECIPES[name]["factory"].partition(":")
    return getattr(importlib.import_module(module), function)
