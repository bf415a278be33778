"""What overrides need to know about a configuration: a small interface that any framework can offer.

A type is an atom ("int" "float" "bool" "str" "none" "any" "path" "dtype" "timedelta" "callable") or a
sequence whose first element names its form: union, literal, list, tuple, dict, enum, object, type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
TypeSpec = object


class ParamLike(Protocol):
    """One parameter of a target or factory."""

    @property
    def type(self) -> TypeSpec: ...
    @property
    def has_default(self) -> bool: ...
    @property
    def default(self) -> object: ...


class TargetLike(Protocol):
    """A class or function that a config node calls."""

    @property
    def kind(self) -> str: ...
    @property
    def var_kwargs(self) -> bool: ...
    @property
    def bases(self) -> Sequence[str]: ...
    @property
    def params(self) -> Mapping[str, ParamLike]: ...


class FactoryLike(Protocol):
    """A function that can be named in an override and makes a config node.

    `config` is its node when called without arguments, or None when that is not known.
    """

    @property
    def target(self) -> str: ...
    @property
    def returns(self) -> str: ...
    @property
    def params(self) -> Mapping[str, ParamLike]: ...
    @property
    def config(self) -> object: ...


class SchemaLike(Protocol):
    """The targets, enums and factories of one framework, by dotted name.

    `factories` has the dotted name of the wanted type first, then the factory's short name; `aliases` maps
    other dotted names of targets to those in `targets`.
    """

    @property
    def targets(self) -> Mapping[str, TargetLike]: ...
    @property
    def enums(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def factories(self) -> Mapping[str, Mapping[str, FactoryLike]]: ...
    @property
    def aliases(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Param:
    """A parameter of a schema that is written in Python (executors, typed knobs)."""

    type: TypeSpec
    has_default: bool = False
    default: object = None


@dataclass(frozen=True)
class Target:
    """A target of a schema that is written in Python."""

    params: Mapping[str, Param]
    kind: str = "class"
    var_kwargs: bool = False
    bases: Sequence[str] = ()


@dataclass(frozen=True)
class SimpleSchema:
    """A schema that is written in Python."""

    targets: Mapping[str, Target]
    enums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    factories: Mapping[str, Mapping[str, FactoryLike]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


ANY = "any"


def form(spec: TypeSpec) -> tuple[str, Sequence[object]]:
    """Returns the form of a type and its arguments: `["list", "int"]` is `("list", ["int"])`."""
    if isinstance(spec, str):
        return spec, ()
    if isinstance(spec, Sequence) and spec and isinstance(spec[0], str):
        return spec[0], spec[1:]
    return ANY, ()


def members(spec: TypeSpec) -> list[TypeSpec]:
    """Returns the members of a union, flattened; any other type is its own only member."""
    name, args = form(spec)
    return [member for arg in args for member in members(arg)] if name == "union" else [spec]


def element_type(spec: TypeSpec, index: int) -> TypeSpec:
    """Returns the type of an element of the lists and tuples that `spec` allows."""
    found: list[TypeSpec] = []
    for member in members(spec):
        name, args = form(member)
        if name == "list":
            found.append(args[0] if args else ANY)
        elif name == "tuple":
            endless = len(args) == 2 and args[1] == "..."
            found.append(args[0] if endless else args[index] if index < len(args) else ANY)
    if not found:
        return ANY
    return found[0] if len(found) == 1 else ["union", *found]


def value_type(spec: TypeSpec) -> TypeSpec:
    """Returns the type of the values of the dicts that `spec` allows."""
    found = [args[1] for name, args in map(form, members(spec)) if name == "dict" and len(args) == 2]
    return found[0] if found else ANY
