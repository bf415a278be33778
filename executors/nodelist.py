"""Slurm's compressed node lists, `node[1-3,07],login-a[0-1]`."""

from __future__ import annotations

import re

from cloudai_run.executors.errors import ExecutorError

_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def expand_nodelist(nodelist: str) -> tuple[str, ...]:
    """Returns the node names of a list as Slurm writes them, in its order.

    Raises:
        ExecutorError: if it is not such a list.
    """
    names = tuple(name for entry in _entries(nodelist) for name in _expand_entry(entry, nodelist))
    repeated = (
        sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    )
    if repeated:
        raise ExecutorError(f"the node list {nodelist!r} names {repeated[0]} more than once")
    return names


def _entries(nodelist: str) -> list[str]:
    """Splits at the commas that stand outside of brackets."""
    entries, depth, start = [], 0, 0
    for at, char in enumerate(nodelist + ","):
        if char == "," and depth == 0:
            entries.append(nodelist[start:at].strip())
            start = at + 1
        depth += {"[": 1, "]": -1}.get(char, 0)
    if depth != 0 or not all(entries):
        raise _malformed(nodelist)
    return entries


def _expand_entry(entry: str, nodelist: str) -> list[str]:
    names = [""]
    for at, part in enumerate(re.split(r"\[([^\[\]]*)\]", entry)):
        if at % 2 == 0:
            if not _PLAIN.fullmatch(part):
                raise _malformed(nodelist)
            pieces = [part]
        else:
            pieces = [number for span in part.split(",") for number in _expand_range(span, nodelist)]
        names = [name + piece for name in names for piece in pieces]
    return names


def _expand_range(span: str, nodelist: str) -> list[str]:
    match = _RANGE.fullmatch(span)
    if match is None:
        raise _malformed(nodelist)
    first, last = match[1], match[2] or match[1]
    if int(last) < int(first):
        raise _malformed(nodelist)
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]


def _malformed(nodelist: str) -> ExecutorError:
    return ExecutorError(
        f"{nodelist!r} is no node list of Slurm's\n  right: node1,node2 or node[1-4,7] or rack[1-2]n[01-16]"
    )
