"""The same checks for the fields of a dataclass, such as those of an executor."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from cloudai_run.overrides.apply import apply_recorded
from cloudai_run.overrides.messages import Naming
from cloudai_run.overrides.schema import ANY, Param, SimpleSchema, Target, Tree, TypeSpec
from cloudai_run.overrides.words import Override

_ATOMS: dict[object, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    None: "none",
    type(None): "none",
}


def check_fields(
    name: str,
    fields: Mapping[str, TypeSpec],
    overrides: Sequence[Override],
    values: Mapping[str, Tree] | None = None,
    prefix: str = "run.executor.",
) -> dict[str, Tree]:
    """Returns the fields that the overrides set, checked against their types.

    Args:
        name: the executor's name, for messages.
        fields: the type of each field, in the encoding of the schema; `type_of` makes it from an annotation.
        overrides: with paths that begin at the fields.
        values: fields that are set already (a settings file): what `+=` adds to and paths go into.
        prefix: what stands before the path on the command line.

    Raises:
        UserError: no such field, a value of another type, or two different values for one field.
    """
    known = {field: Param(spec) for field, spec in fields.items()}
    node: dict[str, Tree] = {"_target_": name, **(values or {})}
    applied = apply_recorded(
        overrides, node, SimpleSchema({name: Target(known)}), Naming(name, prefix=prefix)
    )
    touched = {override.path[0] for override in overrides}
    return {field: value for field, value in applied.tree.items() if field in touched}


def fields_of(cls: type) -> dict[str, TypeSpec]:
    """Returns the types of the fields that a dataclass's constructor takes, in the encoding of the schema."""
    hints = typing.get_type_hints(cls)
    return {
        field.name: type_of(hints[field.name])
        for field in dataclasses.fields(cls)
        if field.init and not field.name.startswith("_")
    }


def type_of(annotation: object) -> TypeSpec:
    """Returns an annotation in the encoding of the schema; what has no counterpart there is "any"."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _ATOMS:
        return _ATOMS[annotation]
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        return ["union", *map(type_of, args)]
    if origin is typing.Literal:
        return ["literal", *args]
    if origin is typing.Annotated:
        return type_of(args[0])
    if origin in (list, Sequence) or annotation is list:
        return ["list", type_of(args[0]) if args else ANY]
    if origin in (dict, Mapping) or annotation is dict:
        return ["dict", *(map(type_of, args) if args else ("str", ANY))]
    if origin is tuple:
        return ["tuple", *("..." if arg is ... else type_of(arg) for arg in args)]
    if isinstance(annotation, type) and issubclass(annotation, PurePath):
        return "path"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ["literal", *(member.value for member in annotation)]
    return ANY
