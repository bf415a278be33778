"""How NeMo's own command line reads a value: a model of its parser, without NeMo.

The parser is NeMo-Run's (nemo_run/cli/cli_parser.py and lazy.py, 0.11.1). It guides itself by the declared type: a
union takes its first member that fits, so that `['a']` for `str or list of str` arrives as text; it imports and
calls a dotted name that is not in quotes; it cuts a value at a line break and fills in `${...}`. The tests hold this
model to the real parser.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeAlias

from cloudai_run.recipes.nemo.schema import Param, Type


class AConfig:
    """What arrives for a text that the parser takes for a config node."""

    def __str__(self) -> str:
        return "Config"


Scalar: TypeAlias = "bool | int | float | str | PurePosixPath | AConfig | None"
Value: TypeAlias = "Scalar | list[Value] | tuple[Value, ...] | dict[Value, Value]"

# What `Param.parser` says of how the parser sees a parameter, beside "typed".
INFERRED, TEXT, REFUSED = "inferred", "text", "refused"


class UnreadableError(ValueError):
    """The parser refuses a text for a type."""


def read_word(text: str, param: Param) -> Value:
    """Returns what arrives at a parameter for the text after `path=`.

    Raises:
        UnreadableError: The text is refused.
    """
    if param.parser in (REFUSED, TEXT) or "\n" in text or "${" in text or not is_argument(text):
        raise UnreadableError(text)
    return read(text, _inferred_type(text) if param.parser == INFERRED else param.type)


def is_argument(text: str) -> bool:
    """Says whether a text can be an argument of a program."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def read(text: str, declared: Type) -> Value:
    """Returns what the typed part of NeMo's parser makes of a text.

    Raises:
        UnreadableError: It refuses the text.
    """
    # What looks like a printed config is taken for one, whatever the type.
    if text.startswith(("<Config", "<Partial")):
        text = text[1:-1].replace("()", "")
    if text.startswith(("Config", "Partial")):
        return AConfig()
    parts: list[Type] = declared if isinstance(declared, list) else [declared]
    reader = _READERS.get(str(parts[0]))
    if reader is None:
        raise UnreadableError(text)
    # Double quotes at both ends are dropped, however many, before the type is looked at.
    return reader(text.strip('"'), parts[1:])


def literal(text: str) -> Value:
    """Returns the value of a Python literal.

    Raises:
        UnreadableError: It is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise UnreadableError(text) from error


def _inferred_type(text: str) -> Type:
    try:
        return type(literal(text)).__name__
    except UnreadableError:
        return "str"


def _read_int(text: str, _: list[Type]) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UnreadableError(text) from error


def _read_float(text: str, _: list[Type]) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UnreadableError(text) from error


def _read_bool(text: str, _: list[Type]) -> Value:
    if text.lower() in ("true", "yes", "1", "on"):
        return True
    if text.lower() in ("false", "no", "0", "off"):
        return False
    raise UnreadableError(text)


def _read_str(text: str, _: list[Type]) -> str:
    is_quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _read_path(text: str, _: list[Type]) -> PurePosixPath:
    if "\0" in text:
        raise UnreadableError(text)
    return PurePosixPath(text.strip("'\" "))


def _read_any(text: str, _: list[Type]) -> Value:
    if text.lower() in ("none", "null"):
        return None
    try:
        return literal(text)
    except UnreadableError:
        return text


def _read_literal(text: str, allowed: list[Type]) -> Value:
    # The text is compared, so that a number never equals one of the allowed values.
    if (unquoted := _read_str(text, [])) in [value for value in allowed if isinstance(value, str)]:
        return unquoted
    raise UnreadableError(text)


def _read_union(text: str, members: list[Type]) -> Value:
    if "none" in members and text.lower() in ("none", "null"):
        return None
    for index, member in enumerate(members):
        # What the schema has as a list of objects behind others is an Iterable of them, which the parser cannot read.
        is_iterable = (
            index > 0 and isinstance(member, list) and member[0] == "list" and member[1][0] == "object"
        )
        try:
            if not is_iterable:
                return read(text, member)
        except UnreadableError:
            continue
    raise UnreadableError(text)


def _read_list(text: str, item_type: list[Type]) -> Value:
    items = literal(text)
    # A bare `list` is refused, and in the schema it looks like a list of anything.
    if not isinstance(items, list) or item_type in ([], ["any"]):
        raise UnreadableError(text)
    return [read(str(item), item_type[0]) for item in items]


def _read_dict(text: str, types: list[Type]) -> Value:
    items = literal(text)
    if not isinstance(items, dict) or types in ([], ["any", "any"]):
        raise UnreadableError(text)
    return {read(str(key), types[0]): read(str(item), types[1]) for key, item in items.items()}


_READERS: dict[str, Callable[[str, list[Type]], Value]] = {
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "str": _read_str,
    "any": _read_any,
    "path": _read_path,
    "literal": _read_literal,
    "union": _read_union,
    "list": _read_list,
    "dict": _read_dict,
}
