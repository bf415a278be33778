"""Config nodes from what the user names: a registered factory, or a class that the schema knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Protocol

from cloudai_run.overrides.expr import Call, Expr, Word, got
from cloudai_run.overrides.mismatch import Mismatch
from cloudai_run.overrides.names import canonical, is_slip, named_object, nearest
from cloudai_run.overrides.schema import (
    FactoryLike,
    Param,
    ParamLike,
    SchemaLike,
    Target,
    TargetLike,
    Tree,
    TypeSpec,
)
from cloudai_run.overrides.text import shown, some_of

TIMEDELTA = "datetime.timedelta"
_UNITS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
_ANY_PARAM = Param("any")
_TIMEDELTA_TARGET = Target({unit: Param(["union", "int", "float"], True, 0) for unit in _UNITS})


class Convert(Protocol):
    """The function that fits a value to a type (convert.convert)."""

    def __call__(self, spec: TypeSpec, expr: Expr, schema: SchemaLike, top: bool = True) -> Tree: ...


def target_of(name: str, schema: SchemaLike) -> TargetLike | None:
    """Returns the schema's target; timedelta has no signature in Python, so its units are known here."""
    return _TIMEDELTA_TARGET if name == TIMEDELTA else schema.targets.get(name)


def subclasses(base: str, schema: SchemaLike) -> Iterator[str]:
    """Yields the names of the schema's classes that are a `base`."""
    for name, target in schema.targets.items():
        if target.kind == "class" and (name == base or base in target.bases):
            yield name


def find_factory(name: str, base: str, schema: SchemaLike) -> tuple[str, FactoryLike] | None:
    """Returns the short name and the factory that `name` (short, or dotted) means for a `base`."""
    for registered_for in _registries(base, schema):
        factories = schema.factories[registered_for]
        if name in factories:
            return name, factories[name]
        if "." in name:
            for short, factory in factories.items():
                if factory.target == name:
                    return short, factory
    return None


def _registries(base: str, schema: SchemaLike) -> Iterator[str]:
    """Yields the types whose factories make a `base`, `base` itself first."""
    if base in schema.factories:
        yield base
    for registered_for in schema.factories:
        target = schema.targets.get(registered_for)
        if registered_for != base and target is not None and base in target.bases:
            yield registered_for


def make_timedelta(expr: Expr, schema: SchemaLike, convert: Convert) -> Tree:
    """Returns the node of `timedelta(minutes=5)`.

    Raises:
        Mismatch: it is no timedelta.
    """
    if isinstance(expr, Call) and expr.name in ("timedelta", TIMEDELTA):
        return _node(TIMEDELTA, _TIMEDELTA_TARGET, expr, schema, convert)
    raise Mismatch(f"expects timedelta, got {got(expr)}", "it is written like timedelta(minutes=15)")


def make_object(base: str, expr: Word | Call, schema: SchemaLike, convert: Convert) -> Tree:
    """Returns the node of a factory registered for the class `base`, or of a class that is a `base`.

    Raises:
        Mismatch: there is no such factory or class, it is of another kind, or its arguments do not fit.
    """
    name, call = _called(expr)
    if factory := find_factory(name, base, schema):
        return _from_factory(*factory, call, schema, convert)
    dotted = canonical(name, schema) if "." in name else _by_short_name(name, base, schema)
    target = target_of(dotted, schema)
    short = _last(base)
    if target is None:
        raise _unknown(name, base, schema)
    if target.kind == "class" and base not in (dotted, *target.bases):
        raise Mismatch(f"expects {short}, got the class {shown(name)}", *_choices(base, schema), depth=1)
    return _node(dotted, target, call, schema, convert)


def _by_short_name(name: str, base: str, schema: SchemaLike) -> str:
    """Returns the dotted name of the only class that is a `base` and has this short name, else `name` itself."""
    found = [dotted for dotted in subclasses(base, schema) if dotted.rpartition(".")[2] == name]
    if len(found) > 1:
        raise Mismatch(
            f"there are several classes {shown(name)}", f"write one of: {some_of(found, 200)}", depth=1
        )
    return found[0] if found else name


def make_any_object(expr: Word | Call, schema: SchemaLike, convert: Convert) -> Tree:
    """Returns what a name or a call means where any value is allowed; an unknown bare name is a string.

    Raises:
        Mismatch: a call of something that is neither a class nor a function of the schema.
    """
    if isinstance(expr, Word):
        if dotted := named_object(expr.text, schema):
            target = schema.targets.get(dotted)
            if target is None or target.kind != "class" or expr.named:
                return {"_target_": dotted, "_call_": False}
            return _node(dotted, target, Call(expr.text, expr.text, ()), schema, convert)
        if expr.named:
            raise Mismatch(f"there is no {shown(expr.text)} in the schema", depth=1)
        return expr.text
    dotted = TIMEDELTA if expr.name == "timedelta" else canonical(expr.name, schema)
    target = target_of(dotted, schema)
    if target is None:
        hints = nearest(expr.name, schema.targets)
        if "(" in expr.text:
            hints.append(f"the text itself goes in quotes: {shown(repr(expr.text), 60)}")
        raise Mismatch(f"there is no class {shown(expr.name)} in the schema", *hints, depth=1)
    return _node(dotted, target, expr, schema, convert)


def _called(expr: Word | Call) -> tuple[str, Call]:
    if isinstance(expr, Word):
        return expr.text, Call(expr.text, expr.text, ())
    return (expr.factory or expr.name), expr


def _node(dotted: str, target: TargetLike, call: Call, schema: SchemaLike, convert: Convert) -> Tree:
    node: dict[str, Tree] = {"_target_": dotted}
    if call.partial:
        node["_partial_"] = True
    node.update(_arguments(call, target.params, schema, convert, target.var_kwargs))
    missing = [name for name, param in target.params.items() if not param.has_default and name not in node]
    if missing and not call.partial:
        raise Mismatch(f"{shown(call.name)}(...) needs {', '.join(missing)}", depth=1)
    return node


def _from_factory(
    name: str, factory: FactoryLike, call: Call, schema: SchemaLike, convert: Convert
) -> dict[str, Tree]:
    arguments = _arguments(call, factory.params, schema, convert, takes_any=False)
    missing = [key for key, param in factory.params.items() if not param.has_default and key not in arguments]
    if missing:
        raise Mismatch(
            f"{shown(name)}(...) needs {', '.join(missing)}", f"write {name}({missing[0]}=...)", depth=1
        )
    if factory.config is None and factory.returns not in schema.targets:
        raise Mismatch(
            f"what {shown(name)} makes is not known here", "name the class itself: Class(name=value)", depth=1
        )
    config = deepcopy(factory.config)
    node: dict[str, Tree] = config if isinstance(config, dict) else {"_target_": factory.returns}
    node["_factory_"] = name
    if arguments:
        node["_factory_args_"] = arguments
    for key, value in arguments.items():
        # A parameter that the factory hands on under its own name.
        if key in node and factory.params[key].has_default and node[key] == factory.params[key].default:
            node[key] = value
    return node


def _arguments(
    call: Call, params: Mapping[str, ParamLike], schema: SchemaLike, convert: Convert, takes_any: bool
) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for key, value in call.arguments:
        param = params.get(key, _ANY_PARAM if takes_any and not is_slip(key, params) else None)
        if param is None:
            takes = some_of(list(params)) or "no arguments"
            raise Mismatch(
                f"{shown(call.name)} has no parameter {shown(key)}",
                f"{shown(call.name)} takes: {takes}",
                *nearest(key, params),
                depth=1,
            )
        try:
            found[key] = convert(param.type, value, schema, top=False)
        except Mismatch as mismatch:
            raise mismatch.inside(f"argument {key}") from None
    return found


def _unknown(name: str, base: str, schema: SchemaLike) -> Mismatch:
    known = choices(base, schema)
    short = name.rpartition(".")[2]
    near = nearest(short, known)
    return Mismatch(
        f"there is no factory or class {shown(name)} for {_last(base)}", *_choices(base, schema), *near
    )


def _choices(base: str, schema: SchemaLike) -> list[str]:
    names = choices(base, schema)
    return [f"{_last(base)} can be: {some_of(names)}"] if names else []


def choices(base: str, schema: SchemaLike) -> list[str]:
    """Returns what can be written where a `base` is wanted: short names of factories, then of classes."""
    classes = sorted(subclasses(base, schema), key=_nearness)
    near: list[str] = []
    far: list[str] = []
    for registered_for in _registries(base, schema):
        # What a factory makes may be a `base` only by the way: NeMo's optimizer modules are callbacks too.
        is_near = registered_for.rsplit(".", 2)[0] == base.rsplit(".", 2)[0]
        (near if is_near else far).extend(schema.factories[registered_for])
    return list(dict.fromkeys([*near, *map(_last, classes), *far]))


def _nearness(name: str) -> tuple[int, str]:
    """Sorts NeMo's own classes before those that it takes from elsewhere."""
    packages = ("nemo.lightning.", "nemo.")
    return next((i for i, package in enumerate(packages) if name.startswith(package)), len(packages)), name


def _last(dotted: str) -> str:
    return dotted.rpartition(".")[2]
