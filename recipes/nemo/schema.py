"""Loads what is known of a NeMo version's recipes from the data that `exporter.py` wrote.

The forms of a tree and of a type are described in `schema_model`, whose names are also importable from here.
"""

from __future__ import annotations

import json
import lzma
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo.schema_model import Factory, Param, Recipe, Schema, Target, Tree, Type, hint

__all__ = [
    "DEFAULT_ID",
    "PRETRAIN",
    "Factory",
    "Param",
    "Recipe",
    "Schema",
    "Target",
    "Tree",
    "Type",
    "for_image",
    "load",
    "read_schema",
    "schema_files",
    "schema_folder",
]

PRETRAIN = "nemo.collections.llm.api.pretrain"
DEFAULT_ID = "nemo_2_7_3"
DEFAULT_FILE = "nemo-2.7.3.jsonl.xz"
SUFFIX = ".jsonl.xz"
SCHEMA_VERSION = 1
_SHIPPED = Path(__file__).parent / "data"

Read = TypeVar("Read")


class _Lines(Mapping[str, Read]):
    """A mapping whose values are lines of JSON, each read when it is first asked for."""

    def __init__(self, lines: Mapping[str, str], read: Callable[[str, dict[str, Any]], Read]) -> None:
        self._lines, self._read = lines, read
        self._known: dict[str, Read] = {}

    def __getitem__(self, name: str) -> Read:
        if name not in self._known:
            self._known[name] = self._read(name, json.loads(self._lines[name]))
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def _params(raw: Mapping[str, dict[str, Any]]) -> dict[str, Param]:
    return {
        name: Param(
            name=name,
            type=entry["type"],
            default=entry.get("default"),
            required="default" not in entry,
            default_factory=entry.get("default_factory", False),
            parser=entry.get("parser", "typed"),
        )
        for name, entry in raw.items()
    }


def _targets(lines: Mapping[str, str]) -> Mapping[str, Target]:
    def read(name: str, raw: dict[str, Any]) -> Target:
        params, bases = _params(raw["params"]), raw.get("bases")
        if like := raw.get("like"):
            params = {**targets[like].params, **params}
            bases = [like, *targets[like].bases] if bases is None else bases
        flags = {flag: raw.get(flag, False) for flag in ("dataclass", "var_kwargs", "no_signature")}
        return Target(name=name, kind=raw["kind"], bases=tuple(bases or ()), params=params, **flags)

    targets = _Lines(lines, read)
    return targets


def _factories(namespace: str, lines: Mapping[str, str]) -> Mapping[str, Factory]:
    def read(name: str, raw: dict[str, Any]) -> Factory:
        return Factory(**{**raw, "name": name, "type": namespace, "params": _params(raw["params"])})

    return _Lines(lines, read)


def read_schema(schema_id: str, path: Path) -> Schema:
    """Reads a schema file.

    Raises:
        RecipeError: The file is damaged, or of a schema version that this release does not read.
    """
    try:
        lines = lzma.decompress(path.read_bytes()).decode().split("\n")
        header = json.loads(lines[0])
        if header["schema_version"] != SCHEMA_VERSION:
            found = header["schema_version"]
            raise RecipeError(
                f"{path} has schema version {found}; this release reads version {SCHEMA_VERSION}"
            )
        return _read(schema_id, header, iter(lines[1:]))
    except StopIteration as error:
        raise RecipeError(f"{path} is not a schema file: it ends too early") from error
    except (
        OSError,
        EOFError,
        lzma.LZMAError,
        UnicodeError,
        json.JSONDecodeError,
        LookupError,
        TypeError,
    ) as error:
        raise RecipeError(f"{path} is not a schema file: {error}") from error


def _read(schema_id: str, header: dict[str, Any], following: Iterator[str]) -> Schema:
    recipes: dict[str, str] = {}
    for name in header["recipes"]:
        recipes[name] = next(following)
    made: dict[str, dict[str, str]] = {}
    for space, names in header["factories"].items():
        made[space] = {}
        for name in names:
            made[space][name] = next(following)
    targets: dict[str, str] = {}
    for name in header["targets"]:
        targets[name] = next(following)
    return Schema(
        id=schema_id,
        versions=header["versions"],
        image=header["image"],
        enums={name: tuple(members) for name, members in header["enums"].items()},
        aliases=header["aliases"],
        names=frozenset(header["names"]),
        descriptions=header["recipes"],
        recipes=_Lines(recipes, lambda name, raw: Recipe(name=name, **raw)),
        factories={space: _factories(space, registered) for space, registered in made.items()},
        targets=_targets(targets),
    )


def schema_folder() -> Path:
    """Returns the folder of the user's own schemas: $CLOUDAI_RUN_SCHEMA_DIR, or one in the config folder."""
    if folder := os.environ.get("CLOUDAI_RUN_SCHEMA_DIR"):
        return Path(folder)
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "cloudai-run" / "schemas"


def schema_files() -> dict[str, Path]:
    """Returns the known schema files by id: the shipped ones, then the user's.

    A file of the user's that has a shipped one's name, made in another image of that version, gets `user_` before it.
    """
    found: dict[str, Path] = {}
    for folder in (_SHIPPED, schema_folder()):
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            schema_id = re.sub(r"\W", "_", path.name.removesuffix(SUFFIX))
            found[f"user_{schema_id}" if schema_id in found else schema_id] = path
    return found


def load(schema_id: str = DEFAULT_ID) -> Schema:
    """Returns a schema by its id; equal ids give the same object until its file changes.

    Raises:
        RecipeError: There is no schema of that id, or its file cannot be read.
    """
    shipped = _SHIPPED / DEFAULT_FILE
    path = shipped if schema_id == DEFAULT_ID else schema_files().get(schema_id)
    if path is None:
        raise RecipeError(f"no schema {schema_id} in {schema_folder()}" + hint(schema_id, schema_files()))
    return _load(schema_id, path, path.stat().st_mtime_ns)


@cache
def _load(schema_id: str, path: Path, mtime_ns: int) -> Schema:
    del mtime_ns  # Part of the key alone.
    return read_schema(schema_id, path)


def for_image(image: str | None) -> str:
    """Returns the id of the schema that was exported in this container image, or the shipped one's."""
    for schema_id, path in schema_files().items():
        if image and path.parent != _SHIPPED and load(schema_id).image == image:
            return schema_id
    return DEFAULT_ID
