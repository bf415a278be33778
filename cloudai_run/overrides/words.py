"""The words of the command line: `path=value` taken apart into path, operator and value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cloudai_run.errors import UserError
from cloudai_run.overrides.expr import Expr
from cloudai_run.overrides.literals import parse_value
from cloudai_run.overrides.text import Path, join_path, shown

OPERATORS = ("=", "+=", "-=", "*=", "/=")
MAX_PATH = 32
_SEGMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)((?:\[-?[0-9]{1,9}\])*)")
_INDEX = re.compile(r"\[(-?[0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class Override:
    """One override of the command line.

    Attributes:
        word: the whole word as it was typed.
        path: names and list indexes: `trainer.callbacks[0]` is `("trainer", "callbacks", 0)`.
        operator: one of `= += -= *= /=`.
        raw: the text after the operator.
        marked: the word began with `+`: the name is meant although the schema does not know it.
        value: what the text says, before any type is known.
    """

    word: str
    path: Path
    operator: str
    raw: str
    marked: bool
    value: Expr

    @property
    def name(self) -> str:
        """The path as it is typed."""
        return join_path(self.path)

    def __str__(self) -> str:
        return shown(self.word, 100)


def parse(words: Sequence[str]) -> list[Override]:
    """Returns the overrides that the words say, in their order.

    A value `@file` is read here: a config tree or a plain value in YAML, JSON or TOML, relative to the
    current folder.

    Raises:
        UserError: a word is no `path=value`, or a file cannot be read.
    """
    return [parse_word(word) for word in words]


def parse_word(word: str) -> Override:
    """Returns the override that one word says.

    Raises:
        UserError: it is no `path=value`, or its file cannot be read.
    """
    check_text(word)
    if not word.strip():
        raise UserError("an empty word is no override\n  an override is written path=value")
    left, equals, raw = word.partition("=")
    if not equals:
        raise UserError(
            f"{shown(word)}: an override is written path=value\n"
            "  for example: trainer.max_steps=5, data.seq_length*=2, trainer.callbacks[0].start_step=5"
        )
    operator = "="
    if left[-1:] in ("+", "-", "*", "/"):
        left, operator = left[:-1], f"{left[-1]}="
    elif left[-1:] in (":", "|", "&", "%", "!", "<", ">", "^", "@"):
        raise UserError(f"{shown(word)}: {left[-1]}= is none of the operators {' '.join(OPERATORS)}")
    if raw.startswith("="):
        raise UserError(
            f"{shown(word)}: an override has one = sign\n  a text that begins with = goes in quotes: "
            f"{shown(left)}='{shown(raw, 30)}'"
        )
    marked = left.lstrip().startswith("+")
    path = parse_path(left.strip()[marked:], word)
    return Override(word, path, operator, raw, marked, _value(raw, word))


def parse_path(text: str, word: str) -> Path:
    """Returns the names and indexes of a path; `word` is what messages quote.

    Raises:
        UserError: the text is no path.
    """
    if not text:
        raise UserError(f"{shown(word)}: there is no path before the = sign")
    segments: list[str | int] = []
    for part in text.split("."):
        match = _SEGMENT.fullmatch(part)
        if match is None:
            what = (
                f"{shown(part, 30)!r} is no name" if part else "a name is missing between or after the dots"
            )
            raise UserError(
                f"{shown(word)}: {what}\n  a path is names and list indexes: trainer.callbacks[0].start_step"
            )
        segments.append(match[1])
        segments.extend(int(index) for index in _INDEX.findall(match[2]))
    if len(segments) > MAX_PATH:
        raise UserError(f"{shown(word)}: the path has {len(segments)} parts, no config tree is as deep")
    return tuple(segments)


def check_text(word: str) -> None:
    """Raises UserError for text that is not valid UTF-8: it could not be written to any file of the run."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise UserError(f"{shown(word)}: this is not valid UTF-8") from None


def _value(raw: str, word: str) -> Expr:
    text = raw.strip()
    if not text.startswith("@"):
        return parse_value(raw)
    from cloudai_run.overrides.files import read_value_file

    return read_value_file(text[1:], word)
