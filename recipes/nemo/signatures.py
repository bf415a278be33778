"""The signatures of stand-ins, from the schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from cloudai_run.recipes.nemo.schema import PRETRAIN, Factory, Param, Schema, Target, Tree

FACTORY_ARGUMENTS = "_factory_args_"
WORKLOAD = "workload"
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class Default:
    """A default that is not to be changed in place, or that has no literal form.

    A list would be shared by all configs of a class: assign a new one instead of changing it.
    """

    def __init__(self, value: Tree) -> None:
        self.value = value

    def __repr__(self) -> str:
        text = self.value.get("_repr_") if isinstance(self.value, dict) else None
        return f"<default {text or self.value}>"

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Default) else other)

    def __hash__(self) -> int:
        return hash(repr(self.value))


def signature_of(target: Target, named: Callable[[str], object]) -> inspect.Signature:
    """Returns a target's signature, all by keyword; the root of a recipe also takes our `workload`.

    Args:
        target: What is called.
        named: Returns the stand-in of a named object, for defaults.
    """
    params = [_parameter(param, named) for param in target.params.values()]
    if target.name == PRETRAIN:
        params.append(inspect.Parameter(WORKLOAD, _KEYWORD_ONLY, default=None))
    if target.var_kwargs:
        params.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(params)


def factory_signature(factory: Factory, schema: Schema, named: Callable[[str], object]) -> inspect.Signature:
    """Returns the signature of a factory's node: that of the class it makes, and the factory's own arguments."""
    returned = schema.targets.get(factory.returns)
    params = [] if returned is None else list(signature_of(returned, named).parameters.values())
    arguments = inspect.Parameter(FACTORY_ARGUMENTS, _KEYWORD_ONLY, default=None)
    position = next((i for i, p in enumerate(params) if p.kind is p.VAR_KEYWORD), len(params))
    return inspect.Signature([*params[:position], arguments, *params[position:]])


def _parameter(param: Param, named: Callable[[str], object]) -> inspect.Parameter:
    default = inspect.Parameter.empty if param.required else _default(param.default, named)
    return inspect.Parameter(param.name, _KEYWORD_ONLY, default=default)


def _default(tree: Tree, named: Callable[[str], object]) -> object:
    if isinstance(tree, dict):
        if tree.get("_call_") is False:
            return named(str(tree["_target_"]))
        items = tree.get("_tuple_")
        if isinstance(items, list) and not any(isinstance(item, (list, dict)) for item in items):
            return tuple(items)
    return Default(tree) if isinstance(tree, (list, dict)) else tree
