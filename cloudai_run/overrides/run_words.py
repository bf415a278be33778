"""The words that are not for the recipe: `run.executor=...`, `run.env.NAME=...`, `run.plugins=...`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cloudai_run.errors import UserError
from cloudai_run.overrides.expr import Call, Expr, Items, Plain, Word
from cloudai_run.overrides.literals import parse_value
from cloudai_run.overrides.messages import Naming, clash
from cloudai_run.overrides.names import nearest
from cloudai_run.overrides.text import join_path, shown
from cloudai_run.overrides.words import Override, check_text, parse_word

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXECUTOR = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*(\(.*\))?", re.DOTALL)
_SECTIONS = ("executor", "env", "plugins")
# NeMo-Run's own run.* words, and the options that do the same here.
_OPTIONS = {
    "name": "--name NAME",
    "dryrun": "--dryrun",
    "detach": "--detach",
    "tail_logs": "--tail-logs",
    "skip_confirmation": "--yes",
    "yaml": "--yaml FILE",
    "load": "--yaml FILE",
    "factory": "--factory NAME",
}


@dataclass(frozen=True)
class Plugin:
    """A plugin by name, with the arguments it was called with."""

    name: str
    arguments: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class RunWords:
    """A command line, split.

    Attributes:
        recipe: the words that are overrides of the recipe, as they came.
        executor: the name in `run.executor=NAME`, or None.
        executor_overrides: `run.executor.X=...` and the arguments of `run.executor=NAME(X=...)`; their paths
            begin at the executor's fields.
        env: `run.env.NAME=value`; the value is what was typed, byte for byte.
        plugins: `run.plugins=...`, or None where it was not given.
        plugin_overrides: `run.plugins.X=...` and `run.plugins[0].X=...`; their paths begin at the plugins.
    """

    recipe: tuple[str, ...] = ()
    executor: str | None = None
    executor_overrides: tuple[Override, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[Plugin, ...] | None = None
    plugin_overrides: tuple[Override, ...] = ()


def split_run(words: Sequence[str]) -> RunWords:
    """Splits the words of a command line into those for the run and those for the recipe.

    Raises:
        UserError: a word begins with `run.` but means nothing, or contradicts an earlier one.
    """
    splitter = _Splitter()
    for word in words:
        splitter.add(word)
    return RunWords(
        recipe=tuple(splitter.recipe),
        executor=splitter.executor,
        executor_overrides=tuple(splitter.executor_overrides),
        env=splitter.env,
        plugins=splitter.plugins,
        plugin_overrides=tuple(splitter.plugin_overrides),
    )


@dataclass(slots=True)
class _Splitter:
    recipe: list[str] = field(default_factory=list)
    executor: str | None = None
    executor_overrides: list[Override] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    plugins: tuple[Plugin, ...] | None = None
    plugin_overrides: list[Override] = field(default_factory=list)
    executor_word: Override | None = None
    plugins_word: Override | None = None

    def add(self, word: str) -> None:
        section = re.match(r"\s*\+?\s*run\s*(?=[.=\[]|$)", word)
        if section is None:
            self.recipe.append(word)
            return
        if re.match(r"run\.env\b", word):
            self.add_env(word)
            return
        override = parse_word(word)
        match override.path:
            case ("run", "executor"):
                self.add_executor(override)
            case ("run", "executor", *rest):
                self.executor_overrides.append(_without_prefix(override, tuple(rest)))
            case ("run", "plugins"):
                self.add_plugins(override)
            case ("run", "plugins", *rest):
                self.plugin_overrides.append(_without_prefix(override, tuple(rest)))
            case _:
                raise _unknown(override)

    def add_env(self, word: str) -> None:
        check_text(word)
        start, equals, value = word.partition("=")
        name = start.removeprefix("run.env").removeprefix(".")
        if not equals or not _ENV_NAME.fullmatch(name):
            wrong = (
                f"{shown(name, 30)!r} is no name of an environment variable" if equals else "there is no ="
            )
            raise UserError(
                f"{shown(word)}: {wrong}\n"
                "  an environment variable is set with run.env.NAME=value, all after the = sign is its value"
            )
        if self.env.setdefault(name, value) != value:
            raise UserError(
                f"run.env.{name} is given twice: {shown(self.env[name], 40)} and {shown(value, 40)}"
            )

    def add_executor(self, override: Override) -> None:
        match = _EXECUTOR.fullmatch(override.raw.strip())
        if override.operator != "=" or match is None:
            raise UserError(
                f"{override}: an executor is chosen by name\n"
                "  for example: run.executor=local or run.executor=slurm(nodes=4)"
            )
        if self.executor_word is not None and self.executor != match[1]:
            raise clash(override, self.executor_word, True, Naming("the run"))
        self.executor, self.executor_word = match[1], override
        if match[2]:
            call = parse_value(f"executor{match[2]}")
            if not isinstance(call, Call):
                problem = call.problem.replace("executor(", f"{match[1]}(") if isinstance(call, Plain) else ""
                raise UserError(f"{override}: {problem or 'the arguments cannot be read'}")
            for name, value in call.arguments:
                word = f"run.executor.{name}={value.text}"
                self.executor_overrides.append(Override(word, (name,), "=", value.text, False, value))

    def add_plugins(self, override: Override) -> None:
        if self.plugins_word is not None and self.plugins_word.raw != override.raw:
            raise clash(override, self.plugins_word, True, Naming("the run"))
        value = override.value
        items = value.items if isinstance(value, Items) else (value,)
        if override.operator != "=" or not all(isinstance(item, (Word, Call)) for item in items):
            raise UserError(
                f"{override}: plugins are chosen by name\n"
                "  for example: run.plugins=nsys or run.plugins=[nsys(start=5,end=8),memory]"
            )
        self.plugins_word = override
        self.plugins = tuple(map(_plugin, items))


def _plugin(item: Expr) -> Plugin:
    return Plugin(item.name, item.arguments) if isinstance(item, Call) else Plugin(item.text)


def _without_prefix(override: Override, path: tuple[str | int, ...]) -> Override:
    return Override(override.word, path, override.operator, override.raw, override.marked, override.value)


def _unknown(override: Override) -> UserError:
    path = join_path(override.path)
    key = str(override.path[1]) if len(override.path) > 1 else ""
    lines = [f"there is no {path}", f"run takes: {', '.join(f'run.{section}' for section in _SECTIONS)}"]
    if not key:
        pass
    elif key in _OPTIONS:
        lines.append(f"did you mean the option {_OPTIONS[key]}?")
    else:
        lines += nearest(f"run.{key}", [f"run.{section}" for section in _SECTIONS])
    return UserError("\n  ".join(lines))
