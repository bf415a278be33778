"""What differs between two runs besides their numbers: configuration, environment, flags, nodes, versions.

Works on the trees that the run folders hold (config.yaml, run.json), so no framework and no fiddle is
needed. Paths are written as fiddle writes them: `.trainer.max_steps`, `.trainer.callbacks[0]`, `['key']`
for a plain dict, `.__fn_or_cls__` for the target of a node.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Category = Literal[
    "configuration", "environment", "XLA flags", "layout", "container", "versions", "executor", "nodes"
]
CATEGORIES: Final[tuple[Category, ...]] = (
    "configuration",
    "environment",
    "XLA flags",
    "layout",
    "container",
    "versions",
    "executor",
    "nodes",
)
_LAYOUT_FIELDS: Final = (
    "recipe",
    "framework",
    "gpu_model",
    "num_nodes",
    "num_gpus_per_node",
    "precision",
    "smoke",
)
_LONGEST_VALUE = 60


class Absent:
    """Stands for a value that one side does not have."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = Absent()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that differs.

    Attributes:
        path: Where, as fiddle writes paths; for flags `stage.flag`, for the environment the name.
        before, after: The two values; ABSENT where a side has none.
        overridden: The sides ("before", "after") whose user set it on the command line.
    """

    category: Category
    path: str
    before: object
    after: object
    overridden: tuple[Literal["before", "after"], ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run folder says about how the run was made; everything may be empty for a bare log."""

    record: Mapping[str, object]
    config: object = None
    nodes: tuple[str, ...] = ()


def run_differences(before: RunFacts, after: RunFacts) -> list[Difference]:
    """Returns everything that differs between two runs, in the order of `CATEGORIES`."""
    found = list(_config_differences(before, after))
    found += _table_differences("environment", _environment(before), _environment(after))
    found += _table_differences("XLA flags", _xla_flags(before.record), _xla_flags(after.record))
    found += _table_differences(
        "layout", _picked(before.record, _LAYOUT_FIELDS), _picked(after.record, _LAYOUT_FIELDS)
    )
    images = [_picked(facts.record, ("container_image",)) for facts in (before, after)]
    found += _table_differences("container", *images)
    found += _table_differences("versions", _versions(before.record), _versions(after.record))
    found += _table_differences("executor", _executor(before.record), _executor(after.record))
    if before.nodes and after.nodes and set(before.nodes) != set(after.nodes):
        nodes = [", ".join(sorted(facts.nodes)) for facts in (before, after)]
        found.append(Difference(category="nodes", path="nodes", before=nodes[0], after=nodes[1]))
    return found


def _config_differences(before: RunFacts, after: RunFacts) -> Iterator[Difference]:
    if before.config is None or after.config is None:
        return
    overrides = {"before": _override_paths(before.record), "after": _override_paths(after.record)}
    for path, old, new in tree_differences(before.config, after.config):
        # The environment is compared as such, wherever it is kept.
        if re.match(r"\.workload\.env\b", path):
            continue
        sides: list[Literal["before", "after"]] = []
        for side in ("before", "after"):
            if any(_covers(prefix, path) for prefix in overrides[side]):
                sides.append(side)
        yield Difference(category="configuration", path=path, before=old, after=new, overridden=tuple(sides))


def tree_differences(before: object, after: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Yields (path, old, new) for each place where two configuration trees differ, depth first."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if not _is_leaf(before) and not _is_leaf(after):
            yield from _mapping_differences(before, after, path)
            return
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_differences(before, after, path)
        return
    if before != after or isinstance(before, bool) != isinstance(after, bool):
        yield path or "<root>", before, after


def _is_leaf(tree: Mapping[object, object]) -> bool:
    """Whether a mapping stands for one value: a named object, a tuple, a value without literal form."""
    return tree.get("_call_") is False or "_tuple_" in tree or "_repr_" in tree


def _mapping_differences(
    before: Mapping[object, object], after: Mapping[object, object], path: str
) -> Iterator[tuple[str, object, object]]:
    is_node = "_target_" in before or "_target_" in after
    for key in [*before, *(key for key in after if key not in before)]:
        name = "__fn_or_cls__" if key == "_target_" else key
        step = f".{name}" if is_node else f"[{str(key)!r}]"
        yield from tree_differences(before.get(key, ABSENT), after.get(key, ABSENT), path + step)


def _list_differences(
    before: list[object], after: list[object], path: str
) -> Iterator[tuple[str, object, object]]:
    """Aligns two lists, so that one inserted callback does not make every later one differ."""
    keys = [[_alignment_key(item) for item in items] for items in (before, after)]
    matcher = difflib.SequenceMatcher(a=keys[0], b=keys[1], autojunk=False)
    for tag, start, stop, start_after, stop_after in matcher.get_opcodes():
        if tag == "equal" or stop - start == stop_after - start_after:
            for old, new in zip(range(start, stop), range(start_after, stop_after), strict=True):
                yield from tree_differences(before[old], after[new], f"{path}[{new}]")
            continue
        for old in range(start, stop):
            yield f"{path}[{old}]", before[old], ABSENT
        for new in range(start_after, stop_after):
            yield f"{path}[{new}]", ABSENT, after[new]


def _alignment_key(item: object) -> str:
    if isinstance(item, Mapping) and "_target_" in item:
        return str(item["_target_"])
    return json.dumps(item, sort_keys=True, default=str)


def _override_paths(record: Mapping[str, object]) -> list[str]:
    words = record.get("overrides")
    if not isinstance(words, Sequence) or isinstance(words, str):
        return []
    matches = (re.match(r"\+?([^=]+?)\s*[-+*/]?=", str(word)) for word in words)
    return [f".{match[1]}" for match in matches if match]


def _covers(prefix: str, path: str) -> bool:
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}["))


def _table_differences(
    category: Category, before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if old != new:
            yield Difference(category=category, path=name, before=old, after=new)


def _picked(record: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    return {name: record[name] for name in names if record.get(name) is not None}


def _environment(facts: RunFacts) -> dict[str, object]:
    workload = facts.config.get("workload") if isinstance(facts.config, Mapping) else None
    found: dict[str, object] = {}
    for source, key in (
        (facts.record.get("executor"), "env_vars"),
        (workload, "env"),
        (facts.record, "env"),
    ):
        env = source.get(key) if isinstance(source, Mapping) else None
        if isinstance(env, Mapping):
            found.update({str(name): value for name, value in env.items()})
    return found


def _xla_flags(record: Mapping[str, object]) -> dict[str, object]:
    stages = record.get("xla_flags")
    if not isinstance(stages, Mapping):
        return {}
    return {
        f"{stage}.{name}": value
        for stage, flags in stages.items()
        if isinstance(flags, Mapping)
        for name, value in flags.items()
    }


def _versions(record: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, prefix in (("versions", ""), ("schema_versions", "recipe checked against ")):
        versions = record.get(key)
        if isinstance(versions, Mapping):
            found.update({f"{prefix}{name}": value for name, value in versions.items()})
    return found


def _executor(record: Mapping[str, object]) -> dict[str, object]:
    executor = record.get("executor")
    if not isinstance(executor, Mapping):
        return {}
    return {str(name): value for name, value in executor.items() if name != "env_vars"}


def show_value(value: object) -> str:
    """Returns a value of a tree in one short line, for tables."""
    if isinstance(value, Mapping) and "_target_" in value:
        name = str(value["_target_"])
        return name if value.get("_call_") is False else f"{name.rpartition('.')[2]}(...)"
    if isinstance(value, str):
        text = value
    elif isinstance(value, Absent):
        text = repr(value)
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
