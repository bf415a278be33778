"""Completion of override paths and values for the shell."""

from __future__ import annotations

from collections.abc import Iterator

from cloudai_run.errors import UserError
from cloudai_run.overrides.apply import copy_tree
from cloudai_run.overrides.messages import known_names
from cloudai_run.overrides.objects import choices
from cloudai_run.overrides.schema import SchemaLike, Tree, TypeSpec, form, members
from cloudai_run.overrides.walk import UNSET, Lost, find, is_node, node_target
from cloudai_run.overrides.words import parse_path

_RUN = ("run.executor=", "run.executor.", "run.env.", "run.plugins=")


def complete(prefix: str, recipe: str) -> list[str]:
    """Returns the words that an override of a recipe may begin with; nothing for an unknown recipe."""
    from cloudai_run.frameworks import framework_of

    try:
        framework = framework_of(recipe)
    except UserError:
        return []
    return complete_word(prefix, framework.recipe_tree(), framework.schema)


def complete_word(prefix: str, tree: dict[str, Tree], schema: SchemaLike) -> list[str]:
    """Returns the words that begin with `prefix`: up to the next dot, or to the = sign, or whole values.

    `trainer.max_st` gives `trainer.max_steps=`, `trainer.str` gives `trainer.strategy.`, and
    `trainer.strategy.sequence_parallel=T` gives `trainer.strategy.sequence_parallel=True`.
    """
    mark = "+" if prefix.startswith("+") else ""
    typed = prefix[len(mark) :]
    if prefix.startswith("r") and (run := [word for word in _RUN if word.startswith(prefix)]):
        return run
    path, equals, value = typed.partition("=")
    try:
        found = list(_values(path, value, tree, schema) if equals else _paths(path, tree, schema))
    except (UserError, Lost):
        return []
    return [mark + word for word in sorted(found) if word.startswith(typed)]


def _paths(typed: str, tree: dict[str, Tree], schema: SchemaLike) -> Iterator[str]:
    parent, dot, _ = typed.rpartition(".")
    node: Tree = tree
    if dot:
        private = {key: copy_tree(value) for key, value in tree.items()}
        place = find(private, parse_path(parent, typed), schema).effective()
        node = None if place is UNSET else place
    if not isinstance(node, dict):
        return
    names = known_names(node, node_target(node, schema)) if is_node(node) else list(node)
    for name in names:
        value = node.get(name)
        if isinstance(value, list):
            yield from (f"{parent}{dot}{name}[{index}]" for index in range(len(value)))
        yield f"{parent}{dot}{name}{'.' if is_node(value) else '='}"


def _values(path: str, value: str, tree: dict[str, Tree], schema: SchemaLike) -> Iterator[str]:
    plain = path.rstrip("+-*/")
    private = {key: copy_tree(item) for key, item in tree.items()}
    spec = find(private, parse_path(plain, path), schema).spec
    yield from (f"{path}={choice}" for choice in _choices(spec, schema) if choice.startswith(value))


def _choices(spec: TypeSpec, schema: SchemaLike) -> Iterator[str]:
    for member in members(spec):
        name, args = form(member)
        match name:
            case "bool":
                yield from ("True", "False")
            case "none":
                yield "None"
            case "literal":
                yield from map(str, args)
            case "enum":
                yield from schema.enums.get(str(args[0]), ())
            case "dtype":
                yield from ("torch.float32", "torch.bfloat16", "torch.float16")
            case "object":
                yield from choices(str(args[0]), schema)
