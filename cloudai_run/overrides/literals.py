"""The parser of values: Python-like literals, bare names, and calls with named arguments.

It knows a closed list of forms. Whatever else is written (operators, attribute chains on values, lambdas,
comprehensions, f-strings) is plain text to it, and nothing is ever evaluated or imported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cloudai_run.overrides.expr import Call, Expr, Items, Plain, Scalar, Table, Word
from cloudai_run.overrides.text import shown

MAX_DEPTH = 32
# Longer numbers fit neither an int of 64 bits nor a float, and Python itself is slow to convert them.
_MAX_DIGITS = 400

_TOKEN = re.compile(
    r"""
      (?P<number>[+-]?(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)
                 (?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*(?![\w]))
    | (?P<mark>[\[\](){},:=])
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\n)|([abfnrtv0'\"\\]))", re.DOTALL
)
_ESCAPED = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
    "'": "'",
    '"': '"',
    "\\": "\\",
}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None, "null": None}
_BROKEN_START = re.compile(r"""['"\[{(]|[A-Za-z_][A-Za-z0-9_.]*\s*\(""")


class _Problem(Exception):
    """The text is none of the known forms; the argument says where it stops being one."""


def parse_value(raw: str) -> Expr:
    """Returns what `raw` says; text that is no literal, name or call comes back as `Plain`."""
    text = raw.strip()
    if not text:
        return Plain(text, "it is empty")
    try:
        parser = _Parser(text)
        expr = parser.value(0)
        parser.end()
    except _Problem as problem:
        return Plain(text, str(problem), broken=_BROKEN_START.match(text) is not None)
    # Parentheses around the whole value are part of its text, though not of what it says.
    return expr if expr.text == text else replace(expr, text=text)


@dataclass(slots=True)
class _Parser:
    text: str
    at: int = 0

    def peek(self) -> re.Match[str] | None:
        space = _SPACE.match(self.text, self.at)
        assert space is not None
        self.at = space.end()
        return _TOKEN.match(self.text, self.at)

    def stop(self) -> _Problem:
        rest = self.text[self.at :]
        return _Problem(f"cannot read {shown(rest, 24)}" if rest else "it ends too early")

    def take(self, mark: str) -> bool:
        token = self.peek()
        if token is None or token.group() != mark:
            return False
        self.at = token.end()
        return True

    def need(self, mark: str) -> None:
        if not self.take(mark):
            raise self.stop()

    def end(self) -> None:
        self.peek()
        if self.at != len(self.text):
            raise self.stop()

    def value(self, depth: int) -> Expr:
        if depth > MAX_DEPTH:
            raise _Problem(f"it is nested more than {MAX_DEPTH} deep")
        token = self.peek()
        if token is None:
            raise self.stop()
        start, text = self.at, token.group()
        match token.lastgroup:
            case "number":
                self.at = token.end()
                return Scalar(text, _number(text))
            case "string":
                self.at = token.end()
                return Scalar(text, _unquote(text), quoted=True)
            case "name":
                self.at = token.end()
                return self.named(text, start, depth)
        self.at = token.end()
        if text == "[":
            return self.items(start, "]", depth)
        if text == "(":
            return self.items(start, ")", depth)
        if text == "{":
            return self.table(start, depth)
        self.at = start
        raise self.stop()

    def named(self, name: str, start: int, depth: int) -> Expr:
        if self.take("("):
            return self.call(name, start, depth)
        folded = name.lower()
        return Scalar(name, _WORDS[folded]) if folded in _WORDS else Word(name)

    def items(self, start: int, close: str, depth: int) -> Expr:
        found: list[Expr] = []
        comma = False
        while not self.take(close):
            found.append(self.value(depth + 1))
            comma = self.take(",")
            if not comma:
                self.need(close)
                break
        text = self.text[start : self.at]
        if close == ")" and len(found) == 1 and not comma:
            return found[0]
        return Items(text, tuple(found), is_tuple=close == ")")

    def table(self, start: int, depth: int) -> Expr:
        entries: dict[str, Expr] = {}
        while not self.take("}"):
            key = self.value(depth + 1)
            name = key.value if isinstance(key, Scalar) else key.text
            if not isinstance(name, str) or not isinstance(key, (Scalar, Word)):
                raise _Problem(f"the keys of a dict are names or strings, not {shown(key.text)}")
            if name in entries:
                raise _Problem(f"the key {shown(name)} is written twice")
            self.need(":")
            entries[name] = self.value(depth + 1)
            if not self.take(","):
                self.need("}")
                break
        return Table(self.text[start : self.at], tuple(entries.items()))

    def call(self, name: str, start: int, depth: int) -> Expr:
        arguments: dict[str, Expr] = {}
        while not self.take(")"):
            token = self.peek()
            here = self.at
            if token is None or token.lastgroup != "name" or "." in token.group():
                raise _Problem(f"the arguments of {shown(name)}(...) are written name=value")
            self.at = token.end()
            if not self.take("="):
                self.at = here
                raise _Problem(f"the arguments of {shown(name)}(...) are written name=value")
            if token.group() in arguments:
                raise _Problem(f"the argument {shown(token.group())} is written twice")
            arguments[token.group()] = self.value(depth + 1)
            if not self.take(","):
                self.need(")")
                break
        return Call(self.text[start : self.at], name, tuple(arguments.items()))


def _number(text: str) -> int | float:
    if len(text) > _MAX_DIGITS:
        raise _Problem("the number has too many digits")
    digits = text.replace("_", "")
    if digits.lstrip("+-").isdigit():
        return int(digits)
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise _Problem("the number is too large")
    return number


def _unquote(text: str) -> str:
    """Returns the content of a quoted string with Python's escapes; unknown ones keep their backslash."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner

    def replaced(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code:
            point = int(code, 16)
            if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                raise _Problem(f"{match[0]} is no character")
            return chr(point)
        return "" if match[4] else _ESCAPED[match[5]]

    return _ESCAPE.sub(replaced, inner)
