"""The `nemo llm pretrain` command of a recipe: what differs from the recipe, as words in NeMo's own syntax.

The words hold final values only, and each arrives in NeMo as the value it was: see `cli_spell`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.cli_read import REFUSED
from cloudai_run.recipes.nemo.cli_spell import NotCarriedError, spell
from cloudai_run.recipes.nemo.schema import Param, Schema, Target, Tree
from cloudai_run.recipes.nemo.signatures import FACTORY_ARGUMENTS
from cloudai_run.recipes.nemo.tree import MARKS, to_tree

# The executor's to say, so they are always given and never taken from the tree.
SIZES = ("trainer.num_nodes", "trainer.devices")
# Within a call NeMo's parser cuts at each comma and counts brackets, quotes or no quotes.
_PLAIN_ARGUMENT = re.compile(r"[^,()\[\]{}]*|\[[^,()\[\]{}]*\]")


def pretrain_argv(recipe: object, num_nodes: int, devices: int) -> tuple[str, ...]:
    """Returns the whole `nemo llm pretrain` command of a recipe.

    Args:
        recipe: A recipe's tree, or the run.Partial itself.
        num_nodes: Nodes of the executor; the recipe's own number is not looked at.
        devices: GPUs on each node; the recipe's own number is not looked at.

    Raises:
        RecipeError: NeMo's command line cannot carry a value.
    """
    tree = tree_of(recipe)
    name, schema = recipe_of(tree)
    overrides = override_args(tree, schema.recipe_tree(name), schema)
    sizes = (f"trainer.num_nodes={num_nodes}", f"trainer.devices={devices}")
    return ("nemo", "llm", "pretrain", "--yes", "--factory", name, *overrides, *sizes)


def tree_of(recipe: object) -> Mapping[str, Tree]:
    """Returns a recipe's tree, be it given as one or as a run.Partial."""
    return recipe if isinstance(recipe, Mapping) else to_tree(recipe)


def recipe_of(tree: Mapping[str, Tree]) -> tuple[str, Schema]:
    """Returns the name of the recipe that a tree was made from, and the schema it is checked against.

    Raises:
        RecipeError: The tree does not say.
    """
    workload = tree.get("workload")
    if not isinstance(workload, dict) or not isinstance(workload.get("factory"), str):
        raise RecipeError("the tree does not say which recipe it was made from (workload.factory)")
    return str(workload["factory"]), schemas.load(str(workload.get("schema_id", schemas.DEFAULT_ID)))


def override_args(
    tree: Mapping[str, Tree], recipe_tree: Mapping[str, Tree], schema: Schema
) -> tuple[str, ...]:
    """Returns the words that make a recipe into a tree: `path=value`, parents before what is below them.

    trainer.num_nodes and trainer.devices are left out, for they are the executor's.

    Args:
        tree: The final configuration.
        recipe_tree: The recipe's own.
        schema: What is known of the NeMo that reads the words.

    Raises:
        RecipeError: NeMo's command line refuses a value or would change it.
    """
    final = {name: value for name, value in tree.items() if name != "workload"}
    base = {name: value for name, value in recipe_tree.items() if name != "workload"}
    return tuple(_node(final, base, "", schema))


def is_node(value: object) -> TypeGuard[dict[str, Tree]]:
    """Says whether a tree is a config node (a named object is none)."""
    return isinstance(value, dict) and "_target_" in value and value.get("_call_") is not False


def same_tree(one: Tree, other: Tree) -> bool:
    """Says whether two trees are equal, in type too: 1 is neither 1.0 nor True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def param_of(target: Target, name: str) -> Param:
    """Returns a parameter of a target; one that only **kwargs takes is read as anything."""
    if target.no_signature:
        # NeMo's parser asks for a signature before it sets an argument.
        return Param(name=name, type="any", default=None, required=False, parser=REFUSED)
    return target.params.get(name) or Param(name=name, type="any", default=None, required=False)


def _node(final: Mapping[str, Tree], base: Mapping[str, Tree], path: str, schema: Schema) -> Iterator[str]:
    """Yields the words that make one node's arguments into another's of the same target."""
    target = schema.target(str(final["_target_"]))
    for name in [*final, *(name for name in base if name not in final)]:
        at, param = f"{path}.{name}" if path else name, param_of(target, name)
        if name in MARKS or at in SIZES:
            continue
        value = final[name] if name in final else _default(at, param)
        if name not in base or not same_tree(value, base[name]):
            yield from _value(value, base.get(name), at, param, schema)


def _default(path: str, param: Param) -> Tree:
    """Returns what an argument goes back to that the recipe sets and the final configuration does not."""
    has_text_only = isinstance(param.default, dict) and "_repr_" in param.default
    if param.required or has_text_only:
        raise RecipeError(
            f"{path} cannot be left out: the recipe sets it, and it has no default to go back to"
        )
    return param.default


def _value(value: Tree, before: Tree, path: str, param: Param, schema: Schema) -> Iterator[str]:
    try:
        if is_node(value):
            yield from _changed_node(value, before, path, param, schema)
        elif isinstance(value, list) and any(map(is_node, value)):
            yield from _list_of_nodes(value, before, path, schema)
        else:
            yield f"{path}={spell(value, param)}"
    except NotCarriedError as error:
        if before is None and not param.required and same_tree(value, param.default):
            return  # It is so anyway: the recipe does not set it, and this is its default.
        shown = repr(value.get("_target_", value) if isinstance(value, dict) else value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise RecipeError(f"NeMo's command line cannot carry {path}={shown}: {error}") from error


def _changed_node(
    value: dict[str, Tree], before: Tree, path: str, param: Param, schema: Schema
) -> Iterator[str]:
    if is_node(before) and _are_alike(value, before, schema):
        yield from _node(value, before, path, schema)
    elif param.parser == REFUSED:
        raise NotCarriedError("nothing is accepted for this parameter")
    else:
        text, start = _new_node(value, schema, param)
        yield f"{path}={text}"
        yield from _node(value, start, path, schema)


def _are_alike(node: Mapping[str, Tree], before: Mapping[str, Tree], schema: Schema) -> bool:
    """Says whether one node becomes the other by changes of its arguments alone."""
    marks = ("_partial_", "_factory_", FACTORY_ARGUMENTS)
    names = [schema.target(str(one["_target_"])).name for one in (node, before)]
    return names[0] == names[1] and all(node.get(mark) == before.get(mark) for mark in marks)


def _new_node(
    node: Mapping[str, Tree], schema: Schema, param: Param | None = None
) -> tuple[str, Mapping[str, Tree]]:
    """Returns the text that makes a node, and the arguments that it has then.

    NeMo finds a factory by its short name only where it is registered for the parameter's own type; elsewhere
    its dotted name does the same.
    """
    name = str(node["_target_"])
    if "_factory_" not in node:
        return f"{_kind(node)}[{name}]", {}
    made_by, arguments = str(node["_factory_"]), node.get(FACTORY_ARGUMENTS)
    factory = schema.find_factory(made_by, schema.target(name).name)
    if factory is None:
        raise RecipeError(f"NeMo has no factory {made_by} that makes a {name}")
    called = made_by if param is not None and _takes(param.type, factory.type) else factory.target
    text = _call(called, arguments, factory.params) if isinstance(arguments, dict) else called
    return text, factory.config if isinstance(factory.config, dict) else {}


def _takes(spec: object, class_name: str) -> bool:
    """Whether a type names that very class, by itself or in a union."""
    if not isinstance(spec, list):
        return False
    return spec == ["object", class_name] or (
        spec[0] == "union" and any(_takes(one, class_name) for one in spec[1:])
    )


def _kind(node: Mapping[str, Tree]) -> str:
    return "Partial" if node.get("_partial_") else "Config"


def _list_of_nodes(value: Sequence[Tree], before: Tree, path: str, schema: Schema) -> Iterator[str]:
    """Yields the words for a list of nodes: what changes in the recipe's own, then what is added to them."""
    nodes = [node for node in value if is_node(node)]
    if len(nodes) < len(value):
        raise NotCarriedError("a list with nodes in it cannot hold anything else")
    kept = [node for node in before if is_node(node)] if isinstance(before, list) else []
    if len(kept) > len(nodes) or not all(
        _are_alike(*pair, schema) for pair in zip(nodes, kept, strict=False)
    ):
        kept = []
    for index, node in enumerate(kept):
        yield from _node(nodes[index], node, f"{path}[{index}]", schema)
    texts, words = [], []
    for index, node in enumerate(nodes[len(kept) :], len(kept)):
        text, later = _item(node, f"{path}[{index}]", schema)
        texts.append(text)
        words += later
    if texts:
        yield f"{path}{'+=' if kept else '='}[{', '.join(texts)}]"
    yield from words


def _item(node: dict[str, Tree], path: str, schema: Schema) -> tuple[str, list[str]]:
    """Returns the text that makes a node within a list, and the words that follow for its arguments."""
    name = str(node["_target_"])
    target = schema.target(name)
    arguments = {key: item for key, item in node.items() if key not in MARKS}
    if "_factory_" in node:
        text, start = _new_node(node, schema)
        return text, [*_node(node, start, path, schema)]
    try:
        if not node.get("_partial_"):
            return _call(name, arguments, {key: param_of(target, key) for key in arguments}), []
    except NotCarriedError:
        pass  # Not within one call, but perhaps in words of its own.
    return f"nemo_run.{_kind(node)}(pydoc.locate('{name}'))", [*_node(node, {}, path, schema)]


def _call(name: str, arguments: Mapping[str, Tree], params: Mapping[str, Param]) -> str:
    texts = {key: spell(value, params[key]) for key, value in arguments.items()}
    if not all(map(_PLAIN_ARGUMENT.fullmatch, texts.values())):
        raise NotCarriedError("an argument of a call cannot hold a comma or a bracket")
    return f"{name}({', '.join(f'{key}={text}' for key, text in texts.items())})"
