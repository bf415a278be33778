"""The parser of values: what each text says before a type is known."""

from __future__ import annotations

import pytest

from cloudai_run.errors import UserError
from cloudai_run.overrides import parse
from cloudai_run.overrides.expr import Call, Expr, Items, Plain, Scalar, Table, Word
from cloudai_run.overrides.literals import MAX_DEPTH, parse_value

ONE = Scalar("1", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", ONE),
        ("-1.5e3", Scalar("-1.5e3", -1500.0)),
        ("1_0.0_1", Scalar("1_0.0_1", 10.01)),
        ("None", Scalar("None", None)),
        ("'a\\'b'", Scalar("'a\\'b'", "a'b", quoted=True)),
        ('"a"', Scalar('"a"', "a", quoted=True)),
        ("'\\u00e9\\U0001F600\\x41\\0'", Scalar("'\\u00e9\\U0001F600\\x41\\0'", "é\U0001f600A\0", True)),
        ("a.b_c.D2", Word("a.b_c.D2")),
        ("[]", Items("[]", ())),
        ("()", Items("()", (), is_tuple=True)),
        ("(1,)", Items("(1,)", (ONE,), is_tuple=True)),
        ("[ 1 , 1 ]", Items("[ 1 , 1 ]", (ONE, ONE))),
        ("{'a': 1, b.c: 1}", Table("{'a': 1, b.c: 1}", (("a", ONE), ("b.c", ONE)))),
        ("f()", Call("f()", "f", ())),
        (
            "a.B( x = 1, y=[1], )",
            Call("a.B( x = 1, y=[1], )", "a.B", (("x", ONE), ("y", Items("[1]", (ONE,))))),
        ),
    ],
)
def test_form(text: str, expected: Expr) -> None:
    assert parse_value(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1", "it ends too early"),
        ("[1 1]", "cannot read 1]"),
        ("1 + 1", "cannot read + 1"),
        ("f(1)", "the arguments of f(...) are written name=value"),
        ("f(a.b=1)", "the arguments of f(...) are written name=value"),
        ("f(**x)", "the arguments of f(...) are written name=value"),
        ("f(x=1)(y=2)", "cannot read (y=2)"),
        ("f(x=1).y", "cannot read .y"),
        ("f(x=1,x=1)", "the argument x is written twice"),
        ("{'a':1,'a':1}", "the key a is written twice"),
        ("{[1]: 1}", "the keys of a dict are names or strings, not [1]"),
        ("'\\ud800'", "\\ud800 is no character"),
        ("'\\U00110000'", "\\U00110000 is no character"),
        ("b'x'", "cannot read 'x'"),
        ("5" * 500, "the number has too many digits"),
        ("1e400", "the number is too large"),
        ("[" * (MAX_DEPTH + 2), f"it is nested more than {MAX_DEPTH} deep"),
        ("f(x=" * (MAX_DEPTH + 2), f"it is nested more than {MAX_DEPTH} deep"),
        ("{a:" * (MAX_DEPTH + 2), f"it is nested more than {MAX_DEPTH} deep"),
        ("é", "cannot read é"),
        ("-x", "cannot read -x"),
        ("--5", "cannot read --5"),
        ("...", "cannot read ..."),
        ("*a", "cannot read *a"),
        ("a if b else c", "cannot read if b else c"),
    ],
)
def test_text_that_is_no_form_says_why(text: str, problem: str) -> None:
    found = parse_value(text)
    assert isinstance(found, Plain)
    assert found.problem == problem


def test_deepest_allowed_nesting() -> None:
    assert isinstance(parse_value("[" * MAX_DEPTH + "]" * MAX_DEPTH), Items)


def test_path_operator_and_mark() -> None:
    (override,) = parse(["+trainer.callbacks[0].x[-1]*= 5"])
    assert override.path == ("trainer", "callbacks", 0, "x", -1)
    assert (override.operator, override.marked, override.value) == ("*=", True, Scalar("5", 5))
    assert override.name == "trainer.callbacks[0].x[-1]"


def test_spaces_around_the_operator() -> None:
    (override,) = parse([" trainer.max_steps = 5 "])
    assert override.path == ("trainer", "max_steps")
    assert override.value == Scalar("5", 5)


def test_long_values_are_read_in_linear_time() -> None:
    text = "[" + "1," * 100_000 + "]"
    found = parse_value(text)
    assert isinstance(found, Items)
    assert len(found.items) == 100_000
    assert isinstance(parse_value("1_" * 100_000), Plain)
    assert isinstance(parse_value("'" + "\\" * 100_001), Plain)


def test_no_word_is_left_out() -> None:
    assert [override.name for override in parse(["a=1", "b=2", "a=1"])] == ["a", "b", "a"]
    with pytest.raises(UserError, match="path=value"):
        parse(["a=1", "b"])
