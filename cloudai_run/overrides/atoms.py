"""Fits a parsed value to the types that hold no others: numbers, strings, names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloudai_run.overrides.expr import Expr, Plain, Scalar, Word, got
from cloudai_run.overrides.mismatch import Mismatch, describe
from cloudai_run.overrides.names import dtype_name, enum_member, near_dtype, nearest
from cloudai_run.overrides.schema import SchemaLike, Tree
from cloudai_run.overrides.text import shown

MAX_INT = 2**63 - 1
_TRUE, _FALSE = ("yes", "on"), ("no", "off")


@dataclass(frozen=True, slots=True)
class Context:
    """Where a value stands.

    Attributes:
        schema: what names mean.
        top: the value is a whole override, so that unquoted text may be a string as it stands.
        structured: a list, dict or object would be allowed too, so that `[a` is a broken list and no string.
        factories: a factory would be allowed too, so that a bare name is one and no string.
    """

    schema: SchemaLike
    top: bool = True
    structured: bool = False
    factories: bool = False


Check = Callable[[Sequence[object], Expr, Context, bool], Tree]


def no(wanted: str, expr: Expr, *hints: str) -> Mismatch:
    """Returns the report that a value is not what is wanted."""
    return Mismatch(f"expects {wanted}, got {got(expr)}", *hints)


def _none(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Scalar) and expr.value is None:
        return None
    raise no("None", expr)


def _bool(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Scalar) and isinstance(expr.value, bool):
        return expr.value
    if lenient and isinstance(expr, Word) and expr.text.lower() in _TRUE + _FALSE:
        return expr.text.lower() in _TRUE
    if lenient and isinstance(expr, Scalar) and isinstance(expr.value, int) and expr.value in (0, 1):
        return expr.value == 1
    raise no("bool", expr)


def check_int(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    value = expr.value if isinstance(expr, Scalar) else None
    if lenient and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise no("int", expr)
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
        raise no("float", expr)
    return value


def _str(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    if isinstance(expr, Scalar) and expr.quoted:
        return expr.value
    if isinstance(expr, Word) and not expr.named:
        if context.factories:
            # model=llama3_9b is a misspelt factory and no path, though a path would be allowed.
            raise no("str", expr, f"the text itself goes in quotes: '{shown(expr.text, 40)}'")
        return expr.text
    if isinstance(expr, Scalar) and expr.value is None:
        raise no("str", expr, f"the text itself goes in quotes: '{expr.text}'")
    if not context.top or isinstance(expr, Word):
        raise no("str", expr, f"the text itself goes in quotes: '{shown(expr.text, 30)}'")
    if expr.text[0] in "'\"":
        raise no("str", expr, "text that starts with a quote must end with it")
    is_plain = isinstance(expr, Plain) and not expr.broken
    if is_plain or (lenient and not (context.structured and not isinstance(expr, Scalar))):
        return expr.text
    raise no("str", expr)


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
    raise no(describe(["literal", *args]), expr, *nearest(text, known))


def _enum(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    dotted = str(args[0])
    if isinstance(expr, Word) or (isinstance(expr, Scalar) and isinstance(expr.value, str)):
        text = expr.value if isinstance(expr, Scalar) else expr.text
        if member := enum_member(str(text), dotted, context.schema):
            return {"_target_": f"{dotted}.{member}", "_call_": False}
    names = context.schema.enums.get(dotted, ())
    short = dotted.rpartition(".")[2]
    raise no(short, expr, f"{short} is one of: {', '.join(names)}", *nearest(expr.text.strip("'\""), names))


def _dtype(args: Sequence[object], expr: Expr, context: Context, lenient: bool) -> Tree:
    text = expr.value if isinstance(expr, Scalar) and isinstance(expr.value, str) else expr.text
    if isinstance(expr, (Word, Scalar)) and (name := dtype_name(text)):
        return {"_target_": name, "_call_": False}
    raise no(
        "torch dtype", expr, *(near_dtype(expr.text) or ["torch dtypes are written like torch.bfloat16"])
    )


ATOM_CHECKS: dict[str, Check] = {
    "none": _none,
    "bool": _bool,
    "int": check_int,
    "float": _float,
    "str": _str,
    "path": _str,
    "literal": _literal,
    "enum": _enum,
    "dtype": _dtype,
}
