"""Values from files: `path=@file.yaml`."""

from __future__ import annotations

import datetime
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.overrides.expr import Call, Expr, Items, Scalar, Table, Word
from cloudai_run.overrides.text import shown

MAX_BYTES = 4 * 1024 * 1024
# More values than any configuration has: YAML's references can multiply a small file without end.
MAX_VALUES = 50_000
# YAML 1.1 reads 1e-4 as text, since it wants a dot; everybody means the number.
_YAML_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*)?[eE][-+]?[0-9]+$")


class _Unreadable(ValueError):
    """The content has no counterpart in a config tree."""


def read_value_file(name: str, word: str) -> Expr:
    """Returns the value in a file; its suffix says whether it is YAML, JSON or TOML.

    Raises:
        UserError: there is no such file, or it cannot be read as what its name says.
    """
    file = Path(name.strip())
    where = f"{shown(word)}: the file {shown(str(file))}"
    if not name.strip():
        raise UserError(f"{shown(word)}: there is no file name after the @ sign")
    try:
        if file.exists() and not file.is_file():
            raise UserError(f"{where} is no regular file")
        if file.exists() and file.stat().st_size > MAX_BYTES:
            raise UserError(f"{where} is larger than {MAX_BYTES // 1024**2} MiB, which no configuration is")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{where} does not exist\n  it is looked for in {Path.cwd()}") from None
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{where} is not valid UTF-8") from None
    try:
        return from_tree(_load(file.suffix.lower(), text))
    except _Unreadable as error:
        raise UserError(f"{where} {error}") from None
    except RecursionError:
        raise UserError(f"{where} is nested too deep") from None
    except ValueError as error:
        first = str(error).split("\n")[0].split(";")[0]
        raise UserError(f"{where} is no {file.suffix[1:].upper()}: {shown(first, 120)}") from None


def _load(suffix: str, text: str) -> object:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_unique)
    if suffix == ".toml":
        return _load_toml(text)
    if suffix in (".yaml", ".yml"):
        return _load_yaml(text)
    raise _Unreadable("has none of the endings .yaml, .yml, .json, .toml")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise _Unreadable(f"has the key {shown(twice)} twice")
    return found


def _load_toml(text: str) -> object:
    import tomllib

    return tomllib.loads(text)


def _load_yaml(text: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader, whose resolvers are copied here before one is added."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _YAML_FLOAT, list("-+0123456789"))
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise ValueError(f"{problem}{place}") from None


def from_tree(tree: object) -> Expr:
    """Returns the expression of a value in the encoding of config trees.

    Raises:
        ValueError: it holds something that a tree cannot.
    """
    return _TreeReader().read(tree)


@dataclass(slots=True)
class _TreeReader:
    values: int = 0

    def read(self, tree: object) -> Expr:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _Unreadable(f"holds more than {MAX_VALUES} values, which no configuration does")
        match tree:
            case None | bool() | int():
                return Scalar(str(tree), tree)
            case float():
                if not math.isfinite(tree):
                    raise _Unreadable(f"holds {tree}, which is no finite number")
                return Scalar(repr(tree), tree)
            case str() | datetime.date() | datetime.time():
                return Scalar(repr(str(tree)), str(tree), quoted=True)
            case list():
                return Items("of the file", tuple(map(self.read, tree)))
            case dict():
                return self.read_dict(tree)
        raise _Unreadable(f"holds a {type(tree).__name__}, which no configuration does")

    def read_dict(self, tree: dict[object, object]) -> Expr:
        for key in tree:
            if not isinstance(key, str):
                raise _Unreadable(f"has the key {shown(str(key))}, which is no string")
        if set(tree) == {"_null_"}:
            return Scalar("None", None)
        if set(tree) == {"_tuple_"} and isinstance(items := tree["_tuple_"], list):
            return Items("of the file", tuple(map(self.read, items)), is_tuple=True)
        if "_repr_" in tree:
            raise _Unreadable(f"holds {shown(str(tree['_repr_']))}, which has no literal form")
        target, factory = tree.get("_target_"), tree.get("_factory_")
        if not isinstance(target, str):
            return Table("of the file", tuple((str(key), self.read(item)) for key, item in tree.items()))
        if tree.get("_call_") is False:
            return Word(target, named=True)
        arguments = tuple((str(k), self.read(v)) for k, v in tree.items() if not str(k).startswith("_"))
        partial, named = tree.get("_partial_") is True, factory if isinstance(factory, str) else None
        return Call(target, target, arguments, partial, named)
