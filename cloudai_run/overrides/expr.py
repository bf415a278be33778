"""What the text of an override can say, before any type is known."""

from __future__ import annotations

from dataclasses import dataclass

from cloudai_run.overrides.text import shown

Atom = None | bool | int | float | str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a boolean, None, or a string in quotes (`quoted`)."""

    text: str
    value: Atom
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A bare name such as `squad`, `flash` or `torch.bfloat16`; `named` if it cannot be a string."""

    text: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`name(key=value, ...)`: a factory or a class with arguments; `partial` only where a file says so."""

    text: str
    name: str
    arguments: tuple[tuple[str, Expr], ...]
    partial: bool = False
    factory: str | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """`[a, b]`, or `(a, b)` when `is_tuple`."""

    text: str
    items: tuple[Expr, ...]
    is_tuple: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """`{"key": value}`."""

    text: str
    entries: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """Text that is no value of the forms above; where a string is wanted it still is one.

    Attributes:
        problem: why it is none of them.
        broken: true for text that starts like a quoted string, a list, a tuple, a dict or a call.
    """

    text: str
    problem: str
    broken: bool = False


Expr = Scalar | Word | Call | Items | Table | Plain


_OPENING = ("'", '"', "[", "{", "(")


def got(expr: Expr) -> str:
    """Returns what was given, for the end of a message: `the number 1.5`, `the text abc`."""
    text = shown(expr.text)
    match expr:
        case Scalar(value=str()):
            return f"the text {text}"
        case Scalar(value=bool() | None):
            return text
        case Scalar():
            return f"the number {text}"
        case Items(is_tuple=True):
            return f"the tuple {text}"
        case Items():
            return f"the list {text}"
        case Table():
            return f"the dict {text}"
        case Plain(problem=problem) if text[:1] in _OPENING or problem.startswith("the number"):
            return f"{text} ({problem})"
        case Word(named=True):
            return f"the name {text}"
        case Call():
            return text
        case _:
            return f"the text {text}"
