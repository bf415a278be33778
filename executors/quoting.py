"""The only place that writes text for a shell or for Slurm's own readers.

Everything else of the package handles values as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.words import NodeVar, Word, check_env_name, check_text, literal, pieces_of

_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
# sbatch refuses a script that holds a carriage return before a line feed; other control characters no person
# could read.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# srun takes a lone colon, wherever it stands, for the beginning of a second job ("heterogeneous steps" in srun(1)).
SRUN_SEPARATOR = ":"
_SPECIAL_IN_DOUBLE_QUOTES = re.compile(r'["\\$`]')
_ANSI_C = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shell_word(text: str) -> str:
    """Returns `text` as one word of bash that stands for it byte for byte."""
    if _BARE.fullmatch(text) and not text.startswith("="):
        return text
    if not _CONTROL.search(text):
        if "'" not in text:
            return f"'{text}'"
        if not _SPECIAL_IN_DOUBLE_QUOTES.search(text) and "!" not in text:
            return f'"{text}"'
        if "\n" in text:
            return "'" + text.replace("'", "'\\''") + "'"
    escaped = re.sub(r"[\\'\x00-\x1f\x7f]", lambda match: _ansi_c(match[0]), text)
    return f"$'{escaped}'"


def _ansi_c(char: str) -> str:
    return _ANSI_C.get(char, f"\\{ord(char):03o}")


def shell_lines(words: Iterable[str], width: int = 100) -> list[str]:
    """Returns words as they stand on a command line, in pieces of at most `width` characters where words allow."""
    lines: list[str] = []
    for word in map(shell_word, words):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def is_bare(text: str) -> bool:
    """Says whether a text may stand in a script unquoted, within quotes of any kind too."""
    return _BARE.fullmatch(text) is not None


def expanding_word(pieces: Iterable[str]) -> str:
    """Returns expansions (`${NAME}`) and bare texts, joined, as one word of bash."""
    return f'"{"".join(pieces)}"'


def path_under(variable: str, path: str) -> str:
    """Returns a word for a path below the directory that a variable of the script holds."""
    return f'"${variable}"/{shell_word(path)}'


class RankScript:
    """Words of a command for a `bash -c` on the rank.

    What has to expand there stands in its text, and all else is handed to it as arguments, so that no value
    is quoted twice or passed longer than it is.

    Attributes:
        arguments: what the script finds in `$1`, `$2` and so on.
    """

    def __init__(self) -> None:
        self.arguments: list[str] = []

    def words(self, words: Iterable[Word], *, inline_bare: bool = False) -> str:
        """Returns the words as they stand in the script's text, and keeps their texts as arguments.

        Args:
            words: what to write.
            inline_bare: write plain texts in place; else each text becomes an argument.
        """
        written: list[str] = []
        first = len(self.arguments) + 1

        def close_slice() -> None:
            count = len(self.arguments) + 1 - first
            if count:
                written.append(f'"${{@:{first}:{count}}}"')

        for word in words:
            text = literal(word)
            if text is not None and text != SRUN_SEPARATOR and not (inline_bare and is_bare(text)):
                self.arguments.append(text)
                continue
            close_slice()
            written.append(text if text is not None else self._mixed(pieces_of(word)))
            first = len(self.arguments) + 1
        close_slice()
        return " ".join(written)

    def _mixed(self, pieces: Iterable[str | NodeVar]) -> str:
        return expanding_word(self._piece(piece) for piece in pieces)

    def _piece(self, piece: str | NodeVar) -> str:
        if isinstance(piece, NodeVar):
            return f"${{{piece.name}}}"
        if not piece or (is_bare(piece) and len(piece) <= 200):
            return piece
        self.arguments.append(piece)
        return f"${{{len(self.arguments)}}}"


def directive_value(text: str) -> str:
    """Returns `text` as the value of an option on an `#SBATCH` line."""
    if is_bare(text) or re.fullmatch(r"[A-Za-z0-9_@%+=:,./\[\]&|*!-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def pattern_path(path: str) -> str:
    """Returns a path as Slurm's `--output` takes it: a `%` of the path is not the beginning of a pattern."""
    return path.replace("%", "%%")


def secret_file(values: Mapping[str, str]) -> str:
    """Returns the text of a secrets' file: `NAME=VALUE`, each followed by a NUL, so that any value fits.

    Raises:
        ExecutorError: for a name or a value that no environment can carry.
    """
    for name, value in values.items():
        check_env_name(name, "secrets")
        check_text(value, f"the secret {name}")
    return "".join(f"{name}={value}\0" for name, value in values.items())


def comment_line(text: str) -> str:
    """Returns `text` as a comment of a script.

    Raises:
        ExecutorError: if it has more than one line.
    """
    if "\n" in text or "\r" in text:
        raise ExecutorError(f"a comment of a script is one line: {text!r}")
    return f"# {text}"
