"""Fits a parsed value to a type of the schema and returns it in the encoding of config trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .expr import Expr, Items, Plain, Scalar, Table, Word, got
from .mismatch import Mismatch, describe
from .names import callable_name, dtype_name, enum_member, near_dtype, nearest
from .objects import make_any_object, make_object, make_timedelta
from .schema import SchemaLike, Tree, TypeSpec, form, members
from .text import shown

MAX_INT = 2**63 - 1
MARKS = ("_target_", "_partial_", "_call_", "_tuple_", "_factory_", "_factory_args_", "_repr_", "_null_")
_TRUE, _FALSE = ("yes", "on"), ("no", "off")
_STRUCTURED = {"list", "tuple", "dict", "object", "timedelta"}
# In a union the narrowest reading wins: `4` is an int where int and str are allowed.
_ORDER = (
    *("none", "bool", "int", "float", "literal", "enum", "dtype", "timedelta", "object", "type"),
    *("callable", "list", "tuple", "dict", "path", "str", "any"),
)
_RANK = {name: rank for rank, name in enumerate(_ORDER)}


@dataclass(frozen=True, slots=True)
class Context:
    """Where a value stands.

    Attributes:
        schema: what names mean.
        top: the value is a whole override, so that unquoted text may be a string as it stands.
        structured: a list, dict or object would be allowed too, so that `[a` is a broken list and no string.
    """

    schema: SchemaLike
    top: bool = True
    structured: bool = False


def _empty() -> Mismatch:
    return Mismatch("has no value", "the empty text goes in quotes: ''", depth=1)


Check = Callable[[Sequence[object], Expr, Context, bool], Tree]


def convert(spec: TypeSpec, expr: Expr, schema: SchemaLike, top: bool = True) -> Tree:
    """Returns the value that `expr` is when `spec` is wanted.

    First only exact readings count, then the harmless widenings: an int for a float, an integral float for an
    int, yes/no/on/off/1/0 for a bool, a list for a tuple and the other way, a number for a string.

    Raises:
        Mismatch: it is none.
    """
    options = members(spec)
    if len(options) > 1:
        options = sorted(options, key=lambda option: _RANK.get(form(option)[0], len(_RANK)))
    context = Context(schema, top, any(form(option)[0] in _STRUCTURED for option in options))
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


def _no(wanted: str, expr: Expr, *hints: str) -> Mismatch:
    return Mismatch(f"expects {wanted}, got {got(expr)}", *hints)


def _unread(expr: Plain) -> Mismatch:
    return Mismatch(f"cannot be read: {expr.problem}", f"for the text: '{shown(expr.text, 40)}'", depth=1)


def _none(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Scalar) and expr.value is None:
        return None
    raise _no("None", expr)


def _bool(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Scalar) and isinstance(expr.value, bool):
        return expr.value
    if lenient and isinstance(expr, Word) and expr.text.lower() in _TRUE + _FALSE:
        return expr.text.lower() in _TRUE
    if lenient and isinstance(expr, Scalar) and isinstance(expr.value, int) and expr.value in (0, 1):
        return expr.value == 1
    raise _no("bool", expr)


def _int(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    value = expr.value if isinstance(expr, Scalar) else None
    if lenient and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _no("int", expr)
    if not -MAX_INT - 1 <= value <= MAX_INT:
        raise Mismatch(f"{shown(expr.text)} does not fit into 64 bits", depth=1)
    return value


def _float(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    value = expr.value if isinstance(expr, Scalar) else None
    if lenient and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Mismatch(f"{shown(expr.text)} is too large for a float", depth=1) from None
    if not isinstance(value, float):
        word = expr.text.lstrip("+-").lower()
        if word in ("nan", "inf", "infinity"):
            raise Mismatch(f"{shown(expr.text)} is no finite number", depth=1)
        raise _no("float", expr)
    return value


def _str(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Scalar) and expr.quoted:
        return expr.value
    if isinstance(expr, Word) and not expr.named:
        return expr.text
    if isinstance(expr, Scalar) and expr.value is None:
        raise _no("str", expr, f"the text itself goes in quotes: '{expr.text}'")
    if not context.top or isinstance(expr, Word):
        raise _no("str", expr, f"inside a list or dict it goes in quotes: '{shown(expr.text, 30)}'")
    if not expr.text:
        raise _empty()
    if expr.text[0] in "'\"":
        raise _no("str", expr, "text that starts with a quote must end with it")
    is_plain = isinstance(expr, Plain) and not expr.broken
    if is_plain or (lenient and not (context.structured and not isinstance(expr, Scalar))):
        return expr.text
    raise _no("str", expr)


def _literal(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    value = expr.value if isinstance(expr, Scalar) else None
    if lenient and isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else expr.text
    for arg in args:
        if isinstance(arg, str) and arg == text:
            return arg
        if isinstance(arg, (bool, int, float)) and type(arg) is type(value) and arg == value:
            return arg
        if arg is None and isinstance(expr, Scalar) and value is None:
            return None
    known = [arg for arg in args if isinstance(arg, str)]
    raise _no(describe(["literal", *args]), expr, *nearest(text, known))


def _enum(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    dotted = str(args[0])
    if isinstance(expr, Word) or (isinstance(expr, Scalar) and isinstance(expr.value, str)):
        text = expr.value if isinstance(expr, Scalar) else expr.text
        if member := enum_member(str(text), dotted, context.schema):
            return {"_target_": f"{dotted}.{member}", "_call_": False}
    names = context.schema.enums.get(dotted, ())
    short = dotted.rpartition(".")[2]
    raise _no(short, expr, f"{short} is one of: {', '.join(names)}", *nearest(expr.text.strip("'\""), names))


def _dtype(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Word) and (name := dtype_name(expr.text)):
        return {"_target_": name, "_call_": False}
    raise _no(
        "torch dtype", expr, *(near_dtype(expr.text) or ["torch dtypes are written like torch.bfloat16"])
    )


def _callable(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Word):
        return {"_target_": callable_name(expr.text, context.schema), "_call_": False}
    if isinstance(expr, (Scalar, Items, Table, Plain)):
        raise _no("function", expr)
    return make_any_object(expr, context.schema, convert)


def _type(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Word):
        return {"_target_": callable_name(expr.text, context.schema, str(args[0])), "_call_": False}
    raise _no(describe(["type", *args]), expr)


def _object(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, (Scalar, Items, Table, Plain)):
        raise (
            _unread(expr)
            if isinstance(expr, Plain) and expr.broken
            else _no(describe(["object", *args]), expr)
        )
    return make_object(str(args[0]), expr, context.schema, convert)


def _timedelta(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    return make_timedelta(expr, context.schema, convert)


def _list(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if not isinstance(expr, Items) or (expr.is_tuple and not lenient):
        hint = f"a list of one: [{shown(expr.text, 30)}]" if isinstance(expr, (Scalar, Word)) else ""
        raise _no(describe(["list", *args]), expr, *[hint] * bool(hint))
    return [_element(args[0] if args else "any", item, i, context) for i, item in enumerate(expr.items)]


def _tuple(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    spec = describe(["tuple", *args])
    if not isinstance(expr, Items) or not (expr.is_tuple or lenient):
        raise _no(spec, expr)
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
        raise _no(describe(["dict", *args]), expr)
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
            return _int((), expr, context, lenient)
        case Scalar(value=value):
            return value
        case Items(is_tuple=is_tuple):
            found = [_element("any", item, i, context) for i, item in enumerate(expr.items)]
            return {"_tuple_": found} if is_tuple else found
        case Table():
            return _dict((), expr, context, lenient)
        case Plain(text=""):
            raise _empty()
        case Plain(broken=False) if context.top:
            return expr.text
        case Plain():
            raise _unread(expr)
        case _:
            return make_any_object(expr, context.schema, convert)


_CHECKS: dict[str, Check] = {
    "none": _none,
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": _str,
    "path": _str,
    "literal": _literal,
    "enum": _enum,
    "dtype": _dtype,
    "callable": _callable,
    "type": _type,
    "object": _object,
    "timedelta": _timedelta,
    "list": _list,
    "tuple": _tuple,
    "dict": _dict,
    "any": _any,
}
