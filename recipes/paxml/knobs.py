"""Knobs of PAXML experiment classes as fiddle nodes, one class for each experiment.

`cloudai_run.recipes.paxml.knobs.paxml.tasks.lm.params.nvidia.Grok` stands for the knobs of that experiment: its
parameters are the knobs that the class reads, in lower case, with the class's values as defaults. PAXML itself is
not needed. `OpenKnobs` takes any knob, for classes that nothing is known of.
"""

from __future__ import annotations

import inspect
from functools import cache

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import schema


class Knobs:
    """The knobs that a recipe sets, by name in lower case; what it leaves unset is not there."""

    fdl_config: str | None = None

    def __init__(self, **knobs: object) -> None:
        if self.fdl_config is not None:
            for name in knobs:
                schema.check_knob(self.fdl_config, name)
        self.__dict__.update(knobs)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class OpenKnobs(Knobs):
    """The knobs of an experiment class that nothing is known of."""


class _Package:
    """A step on the way from this module to a class: the packages that experiment classes lie in."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> _Package | type[Knobs]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _resolve(f"{self._path}.{name}")


def _resolve(path: str) -> _Package | type[Knobs]:
    """Returns the knobs of the experiment `path`, or the package of that name.

    Raises:
        AttributeError: if no known experiment lies there.
    """
    if path in schema.experiments():
        return knobs_class(path)
    if any(name.startswith(path + ".") for name in schema.experiments()):
        return _Package(path)
    raise AttributeError(f"no known PAXML experiment class {path}{schema.hint(path, schema.experiments())}")


def _parameter(name: str, param: schema.Param) -> inspect.Parameter:
    # A list would be one object for every recipe, and a change in place would not be seen as set.
    default = tuple(param.default) if isinstance(param.default, list) else param.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)


@cache
def knobs_class(fdl_config: str) -> type[Knobs]:
    """Returns the class of the knobs of an experiment; `OpenKnobs` if nothing is known of it."""
    if fdl_config not in schema.experiments():
        return OpenKnobs
    target = schema.load().target(schema.knobs_target(fdl_config))
    made = type(fdl_config.rpartition(".")[2], (Knobs,), {"fdl_config": fdl_config})
    made.__module__, made.__qualname__ = __name__, fdl_config
    made.__doc__ = f"The knobs of {fdl_config}."
    parameters = [_parameter(name, param) for name, param in target.params.items()]
    made.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return made


def __getattr__(name: str) -> _Package | type[Knobs]:
    if name.startswith("__"):
        raise AttributeError(name)
    return _resolve(name)


def literal(name: str, value: object) -> str:
    """Returns a knob's value as `--fdl.NAME=` takes it: PAXML reads Python literals.

    Raises:
        RecipeError: for a value that has no such form (a number that is not finite, an object).
    """
    if isinstance(value, str):
        return repr(value)
    if value is None or isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float) and value - value == 0:
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(name, part) for part in value)}]"
    raise RecipeError(
        f"fdl.{name} is {value!r}, which PAXML cannot be given\n"
        "  it takes True and False, numbers, text, None and lists of them"
    )


def knob_args(knobs: dict[str, object]) -> tuple[str, ...]:
    """Returns the arguments of paxml.main for knobs in lower case, sorted by name."""
    return tuple(f"--fdl.{name.upper()}={literal(name, value)}" for name, value in sorted(knobs.items()))
