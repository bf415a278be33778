"""Lets lingvo import `tensorflow.python.training.tracking`, which TensorFlow renamed to `...trackable`.

lingvo 0.14 was released for older TensorFlow; without the alias every `--fdl_config` of PAXML ends in a
ModuleNotFoundError on Python 3.11. A .pth file in the environment's site-packages imports this module.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

OLD = "tensorflow.python.training.tracking"
NEW = "tensorflow.python.trackable"


class TrackingAlias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the old package and its modules, and loads the new ones in their place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == OLD or fullname.startswith(OLD + "."):
            return importlib.util.spec_from_loader(fullname, self, is_package=fullname == OLD)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(NEW + spec.name[len(OLD) :])

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the new module has already run."""


sys.meta_path.insert(0, TrackingAlias())
