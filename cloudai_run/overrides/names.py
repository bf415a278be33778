"""What bare names stand for: torch dtypes, members of enums, functions and classes of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from cloudai_run.overrides.mismatch import Mismatch
from cloudai_run.overrides.schema import SchemaLike
from cloudai_run.overrides.text import shown

# torch's own names (torch 2.x, torch.dtype); the value is the canonical name that torch prints.
_DTYPES = {
    name: f"torch.{name}"
    for name in (
        *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("float8_e4m3fnuz", "float8_e5m2fnuz", "complex64", "complex128", "bool"),
        *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    )
} | {
    "double": "torch.float64",
    "float": "torch.float32",
    "half": "torch.float16",
    "long": "torch.int64",
    "int": "torch.int32",
    "short": "torch.int16",
}
# A marked name as near as this to a known one is taken for a slip: save_lst is no argument beside save_last.
SLIP = 0.85
_DTYPE_HABITS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Returns the hint `did you mean X?` as a list of one line, or an empty list."""
    from cloudai_run.recipes.suggest import did_you_mean

    near = did_you_mean(name, known, limit=2)
    return [f"did you mean {' or '.join(near)}?"] if near else []


def is_slip(name: str, known: Iterable[str]) -> bool:
    """Says whether an unknown name differs so little from a known one that it can only be meant for it."""
    from difflib import SequenceMatcher

    folded = name.lower()
    return any(SequenceMatcher(None, folded, other.lower()).ratio() >= SLIP for other in known)


def dtype_name(text: str) -> str | None:
    """Returns torch's own name of a dtype written with or without `torch.`: `half` is `torch.float16`."""
    return _DTYPES.get(text.removeprefix("torch."))


def near_dtype(text: str) -> list[str]:
    """Returns the hint for a misspelt dtype."""
    short = text.removeprefix("torch.")
    if short in _DTYPE_HABITS:
        return [f"did you mean torch.{_DTYPE_HABITS[short]}?"]
    return [
        hint.replace("mean ", "mean torch.").replace(" or ", " or torch.") for hint in nearest(short, _DTYPES)
    ]


def enum_member(text: str, dotted: str, schema: SchemaLike) -> str | None:
    """Returns the member that `text` names: `flash`, `AttnBackend.flash` or the whole dotted name."""
    prefix, _, member = text.rpartition(".")
    fits = not prefix or dotted == prefix or dotted.endswith(f".{prefix}")
    return member if fits and member in schema.enums.get(dotted, ()) else None


def canonical(name: str, schema: SchemaLike) -> str:
    """Returns the name under which the schema has a target that packages re-export under other names."""
    return schema.aliases.get(name, name)


def named_object(text: str, schema: SchemaLike) -> str | None:
    """Returns the dotted name of a dtype, enum member, function or class that the schema knows, else None."""
    if text.startswith("torch.") and (dtype := dtype_name(text)):
        return dtype
    prefix, _, member = text.rpartition(".")
    if member in schema.enums.get(prefix, ()):
        return text
    name = canonical(text, schema)
    return name if name in schema.targets or name in _default_names(schema) else None


def callable_name(text: str, schema: SchemaLike, base: str | None = None) -> str:
    """Returns the dotted name of a function or class (a subclass of `base` where one is given).

    Raises:
        Mismatch: the schema has none of that name.
    """
    name = canonical(text, schema)
    target = schema.targets.get(name)
    if base is not None and target is not None and base not in (name, *target.bases, "builtins.object"):
        raise Mismatch(f"expects a class {base.rpartition('.')[2]}, got {shown(text)}")
    if target is not None or (base is None and name in _default_names(schema)):
        return name
    known = [*_default_names(schema), *schema.targets]
    shorts = {known_name.rpartition(".")[2]: known_name for known_name in known}
    short = text.rpartition(".")[2]
    hints = [f"did you mean {shorts[short]}?"] if short in shorts else nearest(text, known)
    raise Mismatch(f"there is no function or class {shown(text)} in the schema", *hints, depth=1)


def _default_names(schema: SchemaLike) -> frozenset[str]:
    return _names_by_schema(_Identity(schema))


class _Identity:
    """A schema as a key of a cache: by identity, since schemas are large and never change."""

    def __init__(self, schema: SchemaLike) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.schema is self.schema


@lru_cache(maxsize=4)
def _names_by_schema(key: _Identity) -> frozenset[str]:
    """Returns the functions and classes that occur as defaults of parameters: they can be imported."""
    return frozenset(_named_defaults(key.schema))


def _named_defaults(schema: SchemaLike) -> Iterator[str]:
    dtypes = set(_DTYPES.values())
    for target in schema.targets.values():
        for param in target.params.values():
            default = param.default if param.has_default else None
            if isinstance(default, dict) and default.get("_call_") is False:
                name = str(default["_target_"])
                if name not in dtypes and name.rpartition(".")[0] not in schema.enums:
                    yield name
