"""What to run: short factories that return a `run.Partial`, one module a workload.

Each factory can be imported from here, and is only loaded then: `from cloudai_run.recipes import llama3_8b`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import nemo_run as run

_HERE = Path(__file__).parent


def __getattr__(name: str) -> Callable[..., run.Partial]:
    # Python asks here for a submodule too before it imports it: that must stay cheap and must not go round.
    is_module = name.startswith("_") or (_HERE / name).is_dir() or (_HERE / f"{name}.py").is_file()
    catalogue = None if is_module else import_module("cloudai_run.recipes.catalogue")
    if catalogue is None or name not in catalogue.RECIPES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return catalogue.find_factory(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *import_module("cloudai_run.recipes.catalogue").RECIPES])
