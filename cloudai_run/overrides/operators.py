"""The operators `+= -= *= /=`: the new value is computed here, so that only final values travel."""

from __future__ import annotations

import math

from cloudai_run.overrides.atoms import MAX_INT
from cloudai_run.overrides.convert import convert
from cloudai_run.overrides.expr import Expr, Items, Scalar
from cloudai_run.overrides.formatting import brief
from cloudai_run.overrides.mismatch import Mismatch
from cloudai_run.overrides.schema import SchemaLike, Tree, TypeSpec, element_type, form, members, value_type
from cloudai_run.overrides.walk import UNSET, Unset

_NUMBER = ["union", "int", "float"]


def operate(current: Tree | Unset, operator: str, value: Expr, spec: TypeSpec, schema: SchemaLike) -> Tree:
    """Returns `current operator value`, fitted to the type `spec`.

    Numbers take all operators; a list takes `+=` with one element or a list of them, a tuple with a tuple, a
    dict with a dict, a string with a string. None counts as an empty list where a list is allowed.

    Raises:
        Mismatch: the operator does not apply to the current value, or the result does not fit the type.
    """
    forms = {form(member)[0] for member in members(spec)}
    if current is None and operator == "+=" and "list" in forms:
        current = []
    match current:
        case bool():
            pass
        case int() | float():
            return _calculate(current, operator, value, spec, schema)
        case str() if operator == "+=":
            text = current + str(convert("str", value, schema))
            return convert(spec, Scalar(repr(text), text, quoted=True), schema)
        case list() if operator == "+=":
            return [*current, *_elements(value, spec, schema)]
        case {"_tuple_": [*items]} if operator == "+=":
            added = convert(["tuple", "any", "..."], value, schema)
            assert isinstance(added, dict)
            return _checked_tuple([*items, *_items(added)], spec)
        case dict() if operator == "+=" and not any(key.startswith("_") for key in current):
            added = convert(["dict", "str", value_type(spec)], value, schema)
            assert isinstance(added, dict)
            return {**current, **added}
    what = "is not set and has no default" if current is UNSET else f"is {brief(current)}"
    raise Mismatch(f"{operator} does not apply: it {what}")


def _elements(value: Expr, spec: TypeSpec, schema: SchemaLike) -> list[Tree]:
    element = element_type(spec, 0)
    if not isinstance(value, Items):
        return [convert(element, value, schema)]
    added = convert(["list", element], value, schema)
    assert isinstance(added, list)
    return added


def _items(tree: dict[str, Tree]) -> list[Tree]:
    items = tree["_tuple_"]
    assert isinstance(items, list)
    return items


def _checked_tuple(items: list[Tree], spec: TypeSpec) -> Tree:
    fixed = [args for name, args in map(form, members(spec)) if name == "tuple" and "..." not in args]
    if fixed and len(items) != len(fixed[0]):
        raise Mismatch(f"the tuple would have {len(items)} elements, its type has {len(fixed[0])}")
    return {"_tuple_": items}


def _calculate(current: int | float, operator: str, value: Expr, spec: TypeSpec, schema: SchemaLike) -> Tree:
    operand = convert(_NUMBER, value, schema)
    assert isinstance(operand, (int, float))
    written = f"{current} {operator[0]} {operand}"
    try:
        result = _arithmetic(current, operator, operand)
    except ZeroDivisionError:
        raise Mismatch("this divides by zero") from None
    except OverflowError:
        result = math.inf
    if isinstance(result, float) and not math.isfinite(result):
        raise Mismatch(f"{written} is too large for a float")
    if isinstance(result, int) and abs(result) > MAX_INT:
        raise Mismatch(f"{written} does not fit into 64 bits")
    try:
        return convert(spec, Scalar(repr(result), result), schema)
    except Mismatch as mismatch:
        raise Mismatch(f"{written} = {result}: {mismatch.reason}", *mismatch.hints) from None


def _arithmetic(current: int | float, operator: str, operand: int | float) -> int | float:
    match operator:
        case "+=":
            return current + operand
        case "-=":
            return current - operand
        case "*=":
            return current * operand
    both_int = isinstance(current, int) and isinstance(operand, int)
    # An exact quotient of integers stays one: in int | float fields 16 and 16.0 mean different things.
    return current // operand if both_int and current % operand == 0 else current / operand
