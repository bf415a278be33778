"""How a type is named in a message, and the report that a value does not fit it."""

from __future__ import annotations

from cloudai_run.overrides.schema import TypeSpec, form, members

_ATOMS = {"none": "None", "dtype": "torch dtype", "callable": "function", "path": "path"}
MAX_WIDTH = 110


class Mismatch(Exception):
    """A value does not fit a type.

    Attributes:
        reason: what is wrong, in one line.
        hints: what would be right, one line each.
        depth: how far inside the value the fault lies; of several attempts the deepest is reported.
    """

    def __init__(self, reason: str, *hints: str, depth: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hints = hints
        self.depth = depth

    def inside(self, where: str) -> Mismatch:
        """Returns the same report, seen from the value that holds the faulty one."""
        return Mismatch(f"{where}: {self.reason}", *self.hints, depth=self.depth + 1)


def describe(spec: TypeSpec, width: int = MAX_WIDTH) -> str:
    """Returns a type as Python's annotations would write it, cut to `width` characters."""
    names: list[str] = []
    for member in members(spec):
        if (name := _describe_member(member)) not in names:
            names.append(name)
    # None reads best at the end: `int | None`.
    names.sort(key=lambda name: name == "None")
    text = " | ".join(names)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _describe_member(spec: TypeSpec) -> str:
    name, args = form(spec)
    match name:
        case "literal":
            return " | ".join(repr(arg) for arg in args)
        case "list":
            return f"list[{describe(args[0])}]" if args else "list"
        case "tuple":
            return f"tuple[{', '.join('...' if arg == '...' else describe(arg) for arg in args)}]"
        case "dict":
            return f"dict[{', '.join(map(describe, args))}]"
        case "enum" | "object":
            return str(args[0]).rpartition(".")[2]
        case "type":
            return f"class {str(args[0]).rpartition('.')[2]}"
        case _:
            return _ATOMS.get(name, name)
