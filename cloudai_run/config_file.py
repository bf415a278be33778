"""The user's settings: named executors and the default one, from cloudai-run.toml."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.recipes.suggest import did_you_mean

FILE_NAME = "cloudai-run.toml"
KINDS = ("local", "slurm")
# Executors that need no entry in a file: every field keeps its default.
BUILT_IN = {
    "local": "this machine",
    "slurm": "the Slurm cluster of this machine, fields by run.executor.NAME=",
}


@dataclass(frozen=True)
class ExecutorSpec:
    """A named executor: its kind and the fields that the user set.

    Attributes:
        name: as in `run.executor=NAME`.
        kind: `local` or `slurm`.
        fields: field name to value, as written in the file or on the command line.
        source: where the entry stands, for messages.
    """

    name: str
    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)
    source: str = "built in"

    def description(self) -> str:
        """Returns one line for `cloudai-run list`."""
        if self.source == "built in":
            return BUILT_IN[self.name]
        shown = ", ".join(
            f"{key}={value}" for key, value in self.fields.items() if not isinstance(value, dict)
        )
        return f"{self.kind}: {shown}" if shown else self.kind


@dataclass(frozen=True)
class Settings:
    """What cloudai-run.toml says; the defaults where there is none."""

    executors: Mapping[str, ExecutorSpec]
    default_executor: str | None = None
    path: Path | None = None

    def executor(self, name: str) -> ExecutorSpec:
        """Returns the executor of that name.

        Raises:
            UserError: there is none; the message lists the known ones.
        """
        if name in self.executors:
            return self.executors[name]
        near = did_you_mean(name, self.executors)
        lines = [f"there is no executor {name!r}", f"  known: {', '.join(self.executors)}"]
        if near:
            lines.append(f"  did you mean run.executor={near[0]}?")
        lines.append(f"  named executors stand in {FILE_NAME} (docs/executors.md)")
        raise UserError("\n".join(lines))


def find_file(start: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the nearest cloudai-run.toml from `start` upwards, else the one in the user's config folder."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config")
    candidate = home / "cloudai-run" / FILE_NAME
    return candidate if candidate.is_file() else None


def load(start: Path | None = None) -> Settings:
    """Reads the settings that hold in `start` (default: the current folder).

    Raises:
        UserError: the file is no TOML, or holds a key that is not known.
    """
    path = find_file(start or Path.cwd())
    built_in = {name: ExecutorSpec(name, name) for name in BUILT_IN}
    if path is None:
        return Settings(built_in)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    _check_keys(path, "", data, ("default_executor", "executors"))
    tables = data.get("executors", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UserError(f"{path}: executors must be tables, as in [executors.slurm]")
    named = {name: _executor(path, name, table) for name, table in tables.items()}
    settings = Settings({**built_in, **named}, data.get("default_executor"), path)
    if settings.default_executor is not None:
        settings.executor(settings.default_executor)
    return settings


def _executor(path: Path, name: str, table: Mapping[str, object]) -> ExecutorSpec:
    kind = table.get("kind", name if name in KINDS else None)
    if kind not in KINDS:
        raise UserError(
            f"{path}: [executors.{name}] needs kind = {' or '.join(map(repr, KINDS))}"
            + (f", not {kind!r}" if kind is not None else "")
        )
    return ExecutorSpec(name, str(kind), {k: v for k, v in table.items() if k != "kind"}, str(path))


def _check_keys(path: Path, where: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            near = did_you_mean(key, known)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
            raise UserError(f"{path}: unknown key {where}{key}{hint}")
