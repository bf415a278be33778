"""XLA flags: which jaxlib takes which, how sets of them combine, and how they are written.

data/xla_flags.json is a measured table. XLA ends a process at the first flag that it does not know, minutes after
the job began; the table lets the login node say so before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.suggest import did_you_mean

UNKNOWN = "unknown"
SETS = ("common", "profile", "perf")
PROFILE_FLAG = "xla_gpu_pgle_profile_file_or_directory_path"

Value = bool | int | float | str
FlagSet = Mapping[str, Value]

_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
_NAME = re.compile(r"xla_[a-z0-9_]+")
_THRESHOLDS = (
    "xla_gpu_all_gather_combine_threshold_bytes",
    "xla_gpu_all_reduce_combine_threshold_bytes",
    "xla_gpu_reduce_scatter_combine_threshold_bytes",
)


@dataclass(frozen=True)
class Replacement:
    """What to set instead of a flag where it is rejected.

    Attributes:
        flag: the other flag.
        text: for a person.
        values: a value of the old flag to the new flag's; None where nothing has to be set.
        supersedes: where the new flag is known, the old one is accepted still and no longer the one to set.
    """

    flag: str
    text: str
    values: Mapping[str, str | None]
    supersedes: bool = False


@dataclass(frozen=True)
class Flag:
    """A flag of the table.

    Attributes:
        name: without dashes.
        type: `bool`, `int` or `str`.
        values: a value that was tried to one letter a version: a accepted, r rejected, v the value was refused,
            o neither.
        replaced_by: None if nothing takes its place.
    """

    name: str
    type: str
    values: Mapping[str, str]
    replaced_by: Replacement | None


@dataclass(frozen=True)
class Table:
    """The measured flags and the versions of jaxlib that they were tried with, oldest first."""

    versions: tuple[str, ...]
    flags: Mapping[str, Flag]


@cache
def table() -> Table:
    """Returns the table of the package."""
    data = json.loads((Path(__file__).parent / "data" / "xla_flags.json").read_text(encoding="utf-8"))
    flags = {}
    for name, entry in data["flags"].items():
        other = entry.get("replaced_by")
        replaced = None
        if other:
            supersedes = other.get("supersedes", False)
            replaced = Replacement(other["flag"], other["text"], other["values"], supersedes)
        flags[name] = Flag(name, entry["type"], MappingProxyType(entry["values"]), replaced)
    return Table(tuple(data["jaxlib"]), MappingProxyType(flags))


def _key(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


def check_version(jaxlib: str) -> None:
    """Refuses what is neither a version nor `unknown`.

    Raises:
        RecipeError: with the two forms.
    """
    if jaxlib != UNKNOWN and not _VERSION.fullmatch(jaxlib):
        raise RecipeError(
            f"workload.jaxlib is {jaxlib!r}\n  it takes the version in the container, such as 0.4.31, or {UNKNOWN}"
        )


def _letter(row: str, jaxlib: str) -> str:
    """Returns the table's letter for a version; `?` where the versions around it disagree or there are none.

    A version between two measured ones is as they are if they agree; one after the last is as the last if that
    rejects: a removed flag has never come back.
    """
    if jaxlib == UNKNOWN:
        return "?"
    versions = table().versions
    if jaxlib in versions:
        return row[versions.index(jaxlib)]
    later = [index for index, version in enumerate(versions) if _key(version) > _key(jaxlib)]
    if not later:
        return "r" if row[-1] == "r" else "?"
    if later[0] == 0:
        return "?"
    before, after = row[later[0] - 1], row[later[0]]
    return before if before == after else "?"


def status(name: str, value: Value, jaxlib: str) -> str:
    """Returns whether a jaxlib takes a flag with a value.

    Returns:
        `accepted`, `rejected` (it does not know the flag), `value` (it knows the flag and refuses the value), or
        `unknown` (never measured).
    """
    flag = table().flags.get(name)
    if flag is None:
        return UNKNOWN
    letters = {tried: _letter(row, jaxlib) for tried, row in flag.values.items()}
    if set(letters.values()) == {"r"}:
        return "rejected"
    letter = letters.get(text_of(value))
    if letter is None:
        # Another value than those tried: the flag is parsed, and what it makes of the value was not measured.
        return "accepted" if "a" in letters.values() else UNKNOWN
    return {"a": "accepted", "v": "value", "r": "rejected"}.get(letter, UNKNOWN)


def problem(name: str, value: Value, jaxlib: str) -> str | None:
    """Returns why a jaxlib would end on a flag and what to set instead, in one line; None if it would not."""
    found = status(name, value, jaxlib)
    if found not in ("rejected", "value"):
        return None
    flag = table().flags[name]
    if found == "value":
        taken = [tried for tried, row in flag.values.items() if _letter(row, jaxlib) == "a"]
        return f"{name}={text_of(value)}: the flag takes {' or '.join(taken)}"
    replaced = flag.replaced_by
    if replaced is not None and status(replaced.flag, "", jaxlib) != "rejected":
        return f"{name}: set {replaced.text}"
    return f"{name}: nothing takes its place, drop it"


def fitted(flags: FlagSet, jaxlib: str) -> tuple[dict[str, Value], list[str]]:
    """Returns the flags with those that a jaxlib rejects replaced or dropped, and what was done, a text a flag.

    A flag that is accepted still but was superseded is replaced as well.
    """
    fitting: dict[str, Value] = {}
    done: list[str] = []
    for name, value in flags.items():
        new = _successor(name, value, jaxlib)
        if problem(name, value, jaxlib) is None and not (new and new[2]):
            fitting[name] = value
        elif new is None:
            done.append(f"{name} dropped")
        else:
            fitting[new[0]] = typed(new[0], new[1])
            done.append(f"{name} became {new[0]}={new[1]}")
    return fitting, done


def _successor(name: str, value: Value, jaxlib: str) -> tuple[str, str, bool] | None:
    """Returns the flag and value that take a flag's place, and whether they do so although it is accepted."""
    flag = table().flags.get(name)
    replaced = flag.replaced_by if flag else None
    new = replaced.values.get(text_of(value)) if replaced else None
    if replaced is None or new is None or status(replaced.flag, new, jaxlib) != "accepted":
        return None
    return replaced.flag, new, replaced.supersedes


def typed(flag: str, text: str) -> Value:
    """Returns the text of a flag's value as the type that the flag has."""
    kind = table().flags[flag].type
    if kind == "bool":
        return text == "true"
    return int(text) if kind == "int" else text


def text_of(value: Value) -> str:
    """Returns a flag's value as XLA reads it.

    Raises:
        RecipeError: for text with white space or quotes, at which XLA would cut XLA_FLAGS.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if re.search(r"[\s'\"]", text):
        raise RecipeError(f"XLA_FLAGS cannot carry {text!r}: XLA cuts it at white space and quotes")
    return text


def check_names(flags: FlagSet, where: str) -> None:
    """Refuses what is no name of an XLA flag.

    Raises:
        RecipeError: with suggestions from the table.
    """
    for name in flags:
        if not _NAME.fullmatch(name):
            near = did_you_mean(name, table().flags)
            raise RecipeError(
                f"{where}: {name!r} is no name of an XLA flag (xla_...)"
                + (f"\n  did you mean {' or '.join(near)}?" if near else "")
            )


def with_thresholds(flags: FlagSet, combine_threshold_bytes: int | None, num_gpus: int) -> dict[str, Value]:
    """Returns the flags with the combine thresholds that follow from one number.

    All-gather and all-reduce get it whole. A reduce-scatter's result on a rank is `num_gpus` times smaller than what
    goes in, so that it gets it divided by them.
    """
    if combine_threshold_bytes is None:
        return dict(flags)
    gather, reduce, scatter = _THRESHOLDS
    derived: dict[str, Value] = {
        gather: combine_threshold_bytes,
        reduce: combine_threshold_bytes,
        scatter: max(1, combine_threshold_bytes // num_gpus),
    }
    return derived | dict(flags)


def render(flags: FlagSet) -> str:
    """Returns the value of XLA_FLAGS, sorted by name."""
    return " ".join(f"--{name}={text_of(value)}" for name, value in sorted(flags.items()))
