"""Writes down the knobs of PAXML experiment classes, where PAXML is installed.

PAXML takes `--fdl.NAME=VALUE` for any NAME and ignores those that the experiment class does not read. This program
lists, per class, the names that exist, their values, and which of them are never read. It imports nothing of this
project, so that it can be copied into a container:

    python exporter.py paxml.tasks.lm.params.nvidia my_package.experiments.MyClass > experiments.json

An argument is a module (every experiment class in it) or a class. `--source NAME` names where the classes are from.
`--stub PREFIX` stands in for a module that a class's module imports and this installation lacks.
"""

from __future__ import annotations

import argparse
import ast
import enum
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Sequence

KNOB = re.compile(r"[A-Z][A-Z0-9_]*$")

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class _StubModule(types.ModuleType):
    """A module of which every attribute is an empty class."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__ + " (stub)"})


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that `--stub` named."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self.prefixes = tuple(prefixes)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(fullname == prefix or fullname.startswith(prefix + ".") for prefix in self.prefixes):
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StubModule(spec.name)  # its __path__ comes from the spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: the attributes are made when they are asked for."""


def literal(value: object) -> tuple[bool, Json]:
    """Returns whether a class attribute can be given as a literal, and that literal."""
    if isinstance(value, enum.Enum):
        return literal(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return True, value
    if isinstance(value, list | tuple):
        parts = [literal(part) for part in value]
        return all(ok for ok, _ in parts), [part for _, part in parts]
    # jax.numpy's scalar types (jnp.bfloat16) are objects with a dtype; PAXML takes the dtype's name.
    dtype = getattr(value, "dtype", None)
    name = getattr(dtype, "name", None)
    return (True, name) if isinstance(name, str) else (False, None)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def _reads(function: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """Returns the knobs that a function reads from `self` or `cls`, and the names of what it calls."""
    knobs: set[str] = set()
    called: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and KNOB.match(node.attr):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                knobs.add(node.attr)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                called.add(node.func.id)
            elif isinstance(node.func, ast.Attribute):
                called.add(node.func.attr)
    return knobs, called


def _calls_super(function: ast.FunctionDef) -> bool:
    """Returns whether a method calls `super().` with its own name."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == function.name
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "super"
        for node in ast.walk(function)
    )


def _methods_that_run(cls: type) -> Iterator[ast.FunctionDef]:
    """Yields the methods of a class, and those of its bases that are inherited or called with `super()`."""
    hidden: set[str] = set()
    for base in cls.__mro__:
        module = sys.modules.get(base.__module__)
        if base is object or getattr(module, "__file__", None) is None:
            continue
        for function in _functions(ast.parse(textwrap.dedent(inspect.getsource(base)))):
            if function.name not in hidden:
                yield function
                if not _calls_super(function):
                    hidden.add(function.name)


def _helpers_beside(cls: type) -> dict[str, ast.FunctionDef]:
    """Returns the module-level functions of the modules in which a class and its bases are defined."""
    helpers: dict[str, ast.FunctionDef] = {}
    for base in cls.__mro__:
        module = sys.modules.get(base.__module__)
        if module is not None and base is not object and getattr(module, "__file__", None) is not None:
            for node in ast.parse(inspect.getsource(module)).body:
                if isinstance(node, ast.FunctionDef):
                    helpers.setdefault(node.name, node)
    return helpers


def knobs_read(cls: type) -> set[str]:
    """Returns the knobs that the methods of `cls`, or helpers that they call with it, read.

    A knob that only the class body uses (to compute another one while the class is defined) is not among them.
    """
    found: set[str] = set()
    called: set[str] = set()
    for function in _methods_that_run(cls):
        knobs, names = _reads(function)
        found |= knobs
        called |= names
    helpers = _helpers_beside(cls)
    for name in called & helpers.keys():
        found |= _reads(helpers[name])[0]
    return found


def knobs_of(cls: type) -> tuple[dict[str, Json], list[Json]]:
    """Returns the knobs of a class with their values, and the names of those that it never reads."""
    read = knobs_read(cls)
    knobs: dict[str, Json] = {}
    for name in sorted({name for base in cls.__mro__ for name in vars(base)}):
        value = inspect.getattr_static(cls, name)
        if KNOB.match(name) and not isinstance(value, staticmethod | classmethod | property):
            ok, default = literal(value)
            if ok:
                knobs[name] = default
    return knobs, [name for name in knobs if name not in read]


def classes_of(name: str) -> list[type]:
    """Returns the experiment classes that an argument names.

    Raises:
        SystemExit: if there is no such module or class.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        parent, _, last = name.rpartition(".")
        if not parent or error.name not in (name, name.split(".")[0], parent):
            raise
        found = getattr(importlib.import_module(parent), last, None)
        if not isinstance(found, type):
            raise SystemExit(f"error: no module and no class {name}") from None
        return [found]
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == name and hasattr(value, "datasets")
    ]


def export(names: Sequence[str], source: str) -> dict[str, Json]:
    """Returns the file's content for the classes that `names` name."""
    experiments: dict[str, Json] = {}
    for name in names:
        for cls in classes_of(name):
            knobs, ignored = knobs_of(cls)
            experiments[f"{cls.__module__}.{cls.__qualname__}"] = {
                source: {"knobs": knobs, "ignored": ignored}
            }
    return {"schema_version": 1, "experiments": experiments}


def main(argv: Sequence[str]) -> int:
    """Prints the knobs of the classes that the arguments name, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="MODULE_OR_CLASS")
    parser.add_argument("--source", default="exported")
    parser.add_argument("--stub", action="append", default=[])
    args = parser.parse_args(argv)
    # The folder of this file would stand first, and its neighbours before modules that PAXML imports.
    sys.path[0] = os.getcwd()
    sys.meta_path.insert(0, _Stubs(args.stub))
    json.dump(export(args.names, args.source), sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
