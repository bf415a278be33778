"""Words of a command line as data, and what no process can be given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cloudai_run.executors.errors import ExecutorError

# Linux starts no program with a longer argument or NAME=VALUE: 32 pages, NUL included (execve(2)).
MAX_STRING_BYTES = 32 * 4096 - 1
# Slurm cuts longer names off the environment that it carries to a step (src/common/env.c, name_len).
MAX_NAME_BYTES = 255
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class NodeVar:
    """A variable that expands on the rank, such as `NodeVar("SLURM_LOCALID")`.

    A `$` inside a string is never expanded; this marker is the only way to ask for it.

    Raises:
        ExecutorError: if the name is not one of an environment variable.
    """

    name: str

    def __post_init__(self) -> None:
        check_env_name(self.name, "NodeVar")


Word = str | NodeVar | tuple[str | NodeVar, ...]
"""One argument or value: text, a variable of the rank, or both joined, such as
`("--host_idx=", NodeVar("SLURM_PROCID"))`."""


def pieces_of(word: Word) -> tuple[str | NodeVar, ...]:
    """Returns the parts that a word is joined from."""
    return word if isinstance(word, tuple) else (word,)


def literal(word: Word) -> str | None:
    """Returns the text of a word that needs nothing of the rank, or None."""
    pieces = pieces_of(word)
    texts = [piece for piece in pieces if isinstance(piece, str)]
    return "".join(texts) if len(texts) == len(pieces) else None


def check_env_name(name: str, where: str) -> None:
    """Refuses what is no name of an environment variable."""
    if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
        raise ExecutorError(
            f"{name!r} ({where}) is no name of an environment variable"
            "\n  right: letters, digits and _, the first one no digit"
        )
    if len(name) > MAX_NAME_BYTES:
        raise ExecutorError(
            f"{name[:20]}... ({where}) has {len(name)} characters, and Slurm carries {MAX_NAME_BYTES}"
        )


def check_text(value: str, where: str) -> None:
    """Refuses what no argument and no environment variable can carry."""
    if not isinstance(value, str):
        raise ExecutorError(f"{where} is {value!r}: it must be a string")
    if "\0" in value:
        raise ExecutorError(f"{where} holds a NUL character, which no program can be given")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ExecutorError(f"{where} holds {value[error.start]!r}, which UTF-8 cannot write") from None


def check_line(value: str, where: str) -> None:
    """Refuses what is not one line of text."""
    check_text(value, where)
    if not value or "\n" in value or "\r" in value:
        raise ExecutorError(f"{where} is {value!r}: it must be one line of text")


def check_word(word: Word, where: str, name_bytes: int = 0) -> None:
    """Refuses a word that is neither text nor a variable of the rank, or too long to be passed on."""
    size = name_bytes
    for piece in pieces_of(word):
        if not isinstance(piece, NodeVar):
            check_text(piece, where)
            size += len(piece.encode("utf-8"))
    if size > MAX_STRING_BYTES:
        raise ExecutorError(
            f"{where} has {size} bytes, and Linux passes at most {MAX_STRING_BYTES} in one string"
            "\n  put the value into a file of the run folder and pass its path"
        )


def check_env(env: Mapping[str, Word], where: str) -> None:
    """Refuses names and values that a process cannot be given."""
    for name, value in env.items():
        check_env_name(name, where)
        check_word(value, f"{where}[{name!r}]", name_bytes=len(name) + 1)


def check_file_name(name: str, where: str) -> None:
    """Refuses a name that could not stand in a path, a record and a log as it is."""
    if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
        raise ExecutorError(
            f"{where} is {name!r}"
            "\n  right: letters, digits, '.', '_' and '-', the first a letter or digit, at most 100"
        )


def check_path(path: str, where: str) -> None:
    """Refuses a path that means another place in another directory, or that Slurm would read differently."""
    check_line(path, where)
    if not path.startswith("/"):
        raise ExecutorError(f"{where} is {path!r}: it must be an absolute path")
    if "\\" in path:
        raise ExecutorError(f"{where} is {path!r}: Slurm reads a backslash in a path as its own sign")


def check_count(number: int | None, least: int, where: str) -> None:
    """Refuses a number below `least`, and what is no whole number; None passes."""
    if number is not None and (type(number) is not int or number < least):
        raise ExecutorError(f"{where} is {number!r}: it must be a whole number of at least {least}")
