"""How to write a value so that it arrives through NeMo's own command line as it was.

Texts that may do are read back with the model of NeMo's parser in `cli_read`; the first that arrives as the value is
taken, and a value for which there is none is not carried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from cloudai_run.recipes.nemo.cli_read import (
    INFERRED,
    REFUSED,
    TEXT,
    UnreadableError,
    Value,
    is_argument,
    literal,
    read,
    read_word,
)
from cloudai_run.recipes.nemo.schema import Param, Tree, Type

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_DTYPE = re.compile(r"torch\.(bfloat|float|half|double|u?int|long|short|bool|complex)\w*")


class NotCarriedError(ValueError):
    """NeMo's command line refuses a value or would change it; the text is the reason, as half a sentence."""


def spell(value: Tree, param: Param) -> str:
    """Returns a text that arrives as the value at a parameter.

    Raises:
        NotCarriedError: There is none.
    """
    if isinstance(value, dict) and value.get("_call_") is False:
        return _spell_name(str(value["_target_"]), param)
    wanted = plain(value)
    arrived: list[Value] = []
    for text in _texts(wanted, param.type):
        try:
            arrived.append(read_word(text, param))
        except UnreadableError:
            continue
        if _same(wanted, arrived[-1]) or _is_allowed_number(wanted, arrived[-1], param.type):
            return text
    raise NotCarriedError(_reason(wanted, arrived, param))


def _spell_name(name: str, param: Param) -> str:
    if not _DOTTED.fullmatch(name) or param.parser in (INFERRED, REFUSED):
        raise NotCarriedError("no name is looked up there")
    # A dotted name is imported, and called if it can be: what can be called has to be the result of a call.
    return name if _DTYPE.fullmatch(name) else f"pydoc.locate('{name}')"


def plain(value: Tree) -> Value:
    """Returns the Python value of a tree without nodes.

    Raises:
        NotCarriedError: It holds a node or a named object.
    """
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(items := value.get("_tuple_"), list):
        return tuple(plain(item) for item in items)
    if isinstance(items := value.get("_items_"), list):
        return {plain(item[0]): plain(item[1]) for item in items if isinstance(item, list)}
    if "_target_" in value or "_repr_" in value:
        raise NotCarriedError("a list or dict there can hold plain values only")
    return {key: plain(item) for key, item in value.items()}


def _texts(value: Value, declared: Type) -> Iterator[str]:
    """Yields texts that may arrive as a value, the plainest first."""
    if isinstance(value, str):
        yield f"'{value}'"
    for member in _members(declared):
        if isinstance(value, list) and member[0] == "list":
            yield f"[{', '.join(_source(item, member[1]) for item in value)}]"
        if isinstance(value, dict) and member[0] == "dict":
            items = (f"{_source(k, member[1])}: {_source(v, member[2])}" for k, v in value.items())
            yield f"{{{', '.join(items)}}}"
    yield _literal_of(value)
    if isinstance(value, str):
        # Python takes single quotes where it finds double ones, which the parser would drop.
        yield _literal_of(value + '"')[:-2] + "'"


def _literal_of(value: Value) -> str:
    # In a literal a dollar sign can be written so that no `${` is found to be filled in.
    return repr(value).replace("${", "\\x24{")


def _source(item: Value, declared: Type) -> str:
    """Returns the literal of an item in a list or dict: the parser reads the text of that literal's value."""
    for text in ([item] if isinstance(item, str) else []) + list(_texts(item, declared)):
        try:
            if not _same(item, read(text, declared)):
                continue
        except UnreadableError:
            continue
        return text if _is_printed(item, text) else _literal_of(text)
    return _literal_of(item)


def _is_printed(item: Value, text: str) -> bool:
    """Says whether a text is a literal that prints as itself, so that it needs no quotes of its own."""
    try:
        return not isinstance(item, str) and str(literal(text)) == text
    except UnreadableError:
        return False


def _members(declared: Type) -> list[list[Type]]:
    parts: list[Type] = declared if isinstance(declared, list) else [declared]
    members: list[Type] = parts[1:] if parts[0] == "union" else [parts]
    return [member if isinstance(member, list) else [member] for member in members]


def _same(wanted: Value, arrived: Value) -> bool:
    """Says whether what arrives is the value: of one type, but that a declared float or path makes it one."""
    if isinstance(wanted, (list, tuple)) and isinstance(arrived, (list, tuple)):
        lengths = len(wanted) == len(arrived) and type(wanted) is type(arrived)
        return lengths and all(map(_same, wanted, arrived))
    if isinstance(wanted, dict) and isinstance(arrived, dict):
        return _same([*wanted], [*arrived]) and _same([*wanted.values()], [*arrived.values()])
    if isinstance(arrived, PurePosixPath):
        return wanted == str(arrived)
    if isinstance(arrived, float) and type(wanted) in (int, float):
        return wanted == arrived or (wanted != wanted and math.isnan(arrived))
    return type(wanted) is type(arrived) and wanted == arrived


def _is_allowed_number(wanted: Value, arrived: Value, declared: Type) -> bool:
    """Says whether a number arrives as its text where the type allows both, and so means the same by both."""
    allowed = [value for member in _members(declared) if member[0] == "literal" for value in member[1:]]
    return type(wanted) is int and arrived == str(wanted) and wanted in allowed and arrived in allowed


def _reason(wanted: Value, arrived: list[Value], param: Param) -> str:
    if isinstance(wanted, str) and "\n" in wanted:
        return "a text is cut at a line break there"
    if isinstance(wanted, str) and "${" in wanted:
        return "${...} in a text is filled in there"
    if isinstance(wanted, str) and not is_argument(wanted):
        return "no program takes such characters as an argument"
    if param.parser in (REFUSED, TEXT):
        return "nothing is accepted there" + " but a config or a name" * (param.parser == TEXT)
    if arrived:
        kinds = {"PurePosixPath": "path", "str": "text", "AConfig": "node"}
        kind = kinds.get(type(arrived[0]).__name__, "value")
        return f"it would arrive as the {kind} {str(arrived[0])!r}"
    if isinstance(wanted, tuple):
        return "a tuple cannot be written there"
    return f"{type_words(param.type)} is needed there"


def type_words(declared: Type) -> str:
    """Returns a type in words: `int or list of str`."""
    kind, *rest = declared if isinstance(declared, list) else [declared]
    if kind == "union":
        return " or ".join(map(type_words, rest))
    if kind == "literal":
        return " or ".join(map(repr, rest))
    if kind in ("list", "tuple", "dict"):
        return f"{kind} of {', '.join(map(type_words, rest))}"
    if kind in ("object", "enum", "type"):
        return str(rest[0]).rpartition(".")[2]
    return {"none": "None", "any": "anything", "path": "a path", "callable": "a function"}.get(
        str(kind), str(kind)
    )
