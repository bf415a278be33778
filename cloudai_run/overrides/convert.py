"""Fits a parsed value to a type of the schema and returns it in the encoding of config trees."""

from __future__ import annotations

from collections.abc import Sequence

from cloudai_run.overrides.atoms import ATOM_CHECKS, Check, Context, check_int, no
from cloudai_run.overrides.expr import Expr, Items, Plain, Scalar, Table, Word, got
from cloudai_run.overrides.mismatch import Mismatch, describe
from cloudai_run.overrides.names import callable_name
from cloudai_run.overrides.objects import make_any_object, make_object, make_timedelta
from cloudai_run.overrides.schema import SchemaLike, Tree, TypeSpec, form, members
from cloudai_run.overrides.text import shown

MARKS = (
    *("_target_", "_partial_", "_call_", "_tuple_", "_items_"),
    *("_factory_", "_factory_args_", "_repr_", "_null_"),
)
_STRUCTURED = {"list", "tuple", "dict", "object", "timedelta"}
# In a union the narrowest reading wins: `4` is an int where int and str are allowed.
_ORDER = (
    *("none", "bool", "int", "float", "literal", "enum", "dtype", "timedelta", "object", "type"),
    *("callable", "list", "tuple", "dict", "path", "str", "any"),
)
_RANK = {name: rank for rank, name in enumerate(_ORDER)}


def convert(spec: TypeSpec, expr: Expr, schema: SchemaLike, top: bool = True) -> Tree:
    """Returns the value that `expr` is when `spec` is wanted.

    First only exact readings count, then the harmless widenings: an int for a float, an integral float for an
    int, yes/no/on/off/1/0 for a bool, a list for a tuple and the other way, a number for a string.

    Raises:
        Mismatch: it is none.
    """
    options = members(spec)
    if isinstance(expr, Plain) and not expr.text:
        is_text = any(form(option)[0] in ("str", "path", "any") for option in options)
        raise Mismatch("has no value", *["the empty text goes in quotes: ''"] * is_text, depth=1)
    if len(options) > 1:
        options = sorted(options, key=lambda option: _RANK.get(form(option)[0], len(_RANK)))
    forms = [form(option) for option in options]
    context = Context(
        schema,
        top,
        structured=any(name in _STRUCTURED for name, _ in forms),
        factories=any(name == "object" and args[0] in schema.factories for name, args in forms),
    )
    worst: Mismatch | None = None
    for lenient in (False, True):
        for option in options:
            name, args = form(option)
            try:
                return _CHECKS.get(name, _any)(args, expr, context, lenient)
            except Mismatch as mismatch:
                if worst is None or (mismatch.depth, len(mismatch.hints)) > (worst.depth, len(worst.hints)):
                    worst = mismatch
    assert worst is not None
    if worst.depth or len(options) == 1:
        raise worst
    raise Mismatch(f"expects {describe(spec)}, got {got(expr)}", *worst.hints)


def _unread(expr: Plain, *hints: str) -> Mismatch:
    return Mismatch(f"cannot be read: {expr.problem}", *hints, depth=1)


def _callable(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Word):
        return {"_target_": callable_name(expr.text, context.schema), "_call_": False}
    if isinstance(expr, (Scalar, Items, Table, Plain)):
        raise no("function", expr)
    return make_any_object(expr, context.schema, convert)


def _type(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Word):
        return {"_target_": callable_name(expr.text, context.schema, str(args[0])), "_call_": False}
    raise no(describe(["type", *args]), expr)


def _object(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, (Scalar, Items, Table, Plain)):
        raise (
            _unread(expr)
            if isinstance(expr, Plain) and expr.broken
            else no(describe(["object", *args]), expr)
        )
    return make_object(str(args[0]), expr, context.schema, convert)


def _timedelta(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    return make_timedelta(expr, context.schema, convert)


def _list(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if not isinstance(expr, Items) or (expr.is_tuple and not lenient):
        hint = f"a list of one: [{shown(expr.text, 30)}]" if isinstance(expr, (Scalar, Word)) else ""
        raise no(describe(["list", *args]), expr, *[hint] * bool(hint))
    return [_element(args[0] if args else "any", item, i, context) for i, item in enumerate(expr.items)]


def _tuple(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    spec = describe(["tuple", *args])
    if not isinstance(expr, Items) or not (expr.is_tuple or lenient):
        raise no(spec, expr)
    endless = len(args) == 2 and args[1] == "..."
    kinds = [args[0]] * len(expr.items) if endless else list(args)
    if len(kinds) != len(expr.items):
        raise Mismatch(f"expects {spec}, got {len(expr.items)} elements: {shown(expr.text)}", depth=1)
    found = [
        _element(kind, item, i, context) for i, (kind, item) in enumerate(zip(kinds, expr.items, strict=True))
    ]
    return {"_tuple_": found}


def _element(spec: TypeSpec, expr: Expr, index: int, context: Context) -> Tree:
    try:
        return convert(spec, expr, context.schema, top=False)
    except Mismatch as mismatch:
        raise mismatch.inside(f"element {index}") from None


def _dict(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if not isinstance(expr, Table):
        raise no(describe(["dict", *args]), expr)
    key_spec, spec = (args[0], args[1]) if len(args) == 2 else ("any", "any")
    found: dict[str, Tree] = {}
    for key, item in expr.entries:
        if key in MARKS:
            raise Mismatch(f"the key {key} is reserved for config nodes", depth=1)
        try:
            convert(key_spec, Scalar(repr(key), key, quoted=True), context.schema, top=False)
            found[key] = convert(spec, item, context.schema, top=False)
        except Mismatch as mismatch:
            raise mismatch.inside(f"key {shown(key, 30)}") from None
    return found


def _any(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    match expr:
        case Scalar(value=int() as value) if not isinstance(value, bool):
            return check_int((), expr, context, lenient)
        case Scalar(value=value):
            return value
        case Items(is_tuple=is_tuple):
            found = [_element("any", item, i, context) for i, item in enumerate(expr.items)]
            return {"_tuple_": found} if is_tuple else found
        case Table():
            return _dict((), expr, context, lenient)
        case Plain(broken=False) if context.top:
            return expr.text
        case Plain():
            raise _unread(expr, f"the text itself goes in quotes: {shown(repr(expr.text), 60)}")
        case _:
            return make_any_object(expr, context.schema, convert)


_CHECKS: dict[str, Check] = {
    **ATOM_CHECKS,
    "callable": _callable,
    "type": _type,
    "object": _object,
    "timedelta": _timedelta,
    "list": _list,
    "tuple": _tuple,
    "dict": _dict,
    "any": _any,
}
