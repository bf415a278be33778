"""Types of parameters in the schema's language: "int", ["list", "int"], ["union", "str", "none"] and so on."""

from __future__ import annotations

import dataclasses
import types
import typing

NODES_MODULE = "cloudai_run.recipes.paxml.nodes"

TypeSpec = object


def spec_of(annotation: object) -> TypeSpec:
    """Returns the type of a field's annotation in the schema's language."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return ["union", *(spec_of(arg) for arg in args)]
    if origin is typing.Literal:
        return ["literal", *args]
    if origin in (list, dict):
        return [origin.__name__, *(spec_of(arg) for arg in args)]
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return ["object", f"{NODES_MODULE}.{annotation.__name__}"]
    return "none" if annotation is type(None) else getattr(annotation, "__name__", "any")


def fits(value: object, spec: TypeSpec) -> bool:
    """Returns whether a value is of a type of the schema's language; a whole number is a float too."""
    if isinstance(spec, str):
        kinds: dict[str, tuple[type, ...]] = {
            "bool": (bool,),
            "int": (int,),
            "float": (int, float),
            "str": (str,),
            "none": (type(None),),
        }
        # bool is an int to Python and a mistake to PAXML.
        return spec == "any" or (
            isinstance(value, kinds[spec]) and (spec == "bool" or not isinstance(value, bool))
        )
    assert isinstance(spec, list)
    form, args = spec[0], spec[1:]
    if form == "union":
        return any(fits(value, arg) for arg in args)
    assert form == "list", form
    return isinstance(value, list | tuple) and all(fits(part, args[0]) for part in value)


def type_text(spec: TypeSpec) -> str:
    """Returns a type as it is written in Python."""
    if isinstance(spec, str):
        return {"none": "None"}.get(spec, spec)
    assert isinstance(spec, list)
    if spec[0] == "union":
        return " | ".join(type_text(arg) for arg in spec[1:])
    return f"{spec[0]}[{', '.join(type_text(arg) for arg in spec[1:])}]"
