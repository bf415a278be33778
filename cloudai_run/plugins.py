"""`run.plugins=nsys(start_step=5,end_step=6)`: profiling, asked for as NeMo-Run spells plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cloudai_run.config_file import ExecutorSpec
from cloudai_run.errors import UserError
from cloudai_run.frameworks import Config, Framework
from cloudai_run.overrides import Override, Plugin, RunWords, check_fields
from cloudai_run.overrides.schema import Tree, TypeSpec
from cloudai_run.recipes.suggest import did_you_mean

NSYS = "nsys"
# Steps are the profiler's own; everything else is a field of the executor's `nsys`.
_STEPS = ("start_step", "end_step")
_NSYS_FIELDS: Mapping[str, TypeSpec] = {
    "start_step": "int",
    "end_step": "int",
    "ranks": ["list", "int"],
    "options": ["dict", "str", ["union", "str", "none"]],
    "capture": ["literal", "api", "whole"],
    "binary": "str",
    "stages": ["union", ["list", "str"], "none"],
}


def with_plugins(
    framework: Framework, config: Config, executor: ExecutorSpec, words: RunWords
) -> tuple[Config, ExecutorSpec]:
    """Returns the configuration and the executor with the plugins applied.

    With `capture=api` nsys waits for the program's cudaProfilerStart, so the framework is told to call it.

    Raises:
        UserError: an unknown plugin, or one with a wrong argument.
    """
    table = dict(_table(executor))
    for plugin in words.plugins or ():
        if plugin.name != NSYS:
            near = did_you_mean(plugin.name, [NSYS])
            hint = "did you mean nsys?" if near else "known: nsys"
            raise UserError(f"there is no plugin {plugin.name!r}\n  {hint}")
        table |= check_fields(NSYS, _NSYS_FIELDS, _overrides(plugin), prefix="run.plugins.")
    if words.plugin_overrides and not words.plugins:
        raise UserError(f"{words.plugin_overrides[0]}: name the plugin first: run.plugins=nsys")
    if words.plugin_overrides:
        table |= check_fields(NSYS, _NSYS_FIELDS, _without_name(words), table, prefix="run.plugins.")
    if not table and not words.plugins:
        return config, executor
    if table.get("capture", "api") == "api":
        config = framework.with_profiler(
            config, _step(table, "start_step"), _step(table, "end_step"), _ranks(table)
        )
    fields = {name: value for name, value in table.items() if name not in _STEPS}
    return config, replace(executor, fields={**executor.fields, "nsys": fields})


def _table(executor: ExecutorSpec) -> Mapping[str, Tree]:
    table = executor.fields.get("nsys")
    return table if isinstance(table, Mapping) else {}


def _overrides(plugin: Plugin) -> list[Override]:
    made = []
    for name, value in plugin.arguments:
        made.append(Override(f"{plugin.name}({name}={value.text})", (name,), "=", value.text, False, value))
    return made


def _without_name(words: RunWords) -> list[Override]:
    """The paths of `run.plugins.nsys.X` and `run.plugins[0].X`, without what says which plugin."""
    return [
        replace(override, path=override.path[1:]) if override.path[0] in (NSYS, 0) else override
        for override in words.plugin_overrides
    ]


def _step(table: Mapping[str, Tree], name: str) -> int | None:
    value = table.get(name)
    return value if isinstance(value, int) else None


def _ranks(table: Mapping[str, Tree]) -> list[int]:
    ranks = table.get("ranks")
    return [rank for rank in ranks if isinstance(rank, int)] if isinstance(ranks, list) else [0]
