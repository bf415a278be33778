"""The model of NeMo's parser against the parser itself, which is NeMo-Run's and needs no NeMo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloudai_run.recipes.nemo.cli_read import INFERRED, REFUSED, TEXT, UnreadableError, read, read_word
from cloudai_run.recipes.nemo.cli_spell import NotCarriedError, spell, type_words
from cloudai_run.recipes.nemo.schema import Param, Tree, Type


def annotation(declared: Type) -> Any:
    """The Python annotation that the schema's type was read from."""
    kind, *rest = declared if isinstance(declared, list) else [declared]
    if kind == "union":
        return Union[tuple(map(annotation, rest))]  # noqa: UP007
    if kind == "literal":
        return Literal[tuple(rest)]  # type: ignore[valid-type]
    if kind == "list":
        return list[annotation(rest[0])]
    if kind == "dict":
        return dict[annotation(rest[0]), annotation(rest[1])]
    atoms = {"int": int, "float": float, "bool": bool, "str": str, "none": None, "any": Any, "path": Path}
    return {**atoms, "callable": Callable, "tuple": tuple[int, int]}[str(kind)]


def param(declared: Type, parser: str = "typed") -> Param:
    return Param(name="x", type=declared, default=None, required=True, parser=parser)


# The schema's alias does not say that the values of a literal may be numbers.
TYPES: list[Any] = [
    "int",
    "float",
    "bool",
    "str",
    "path",
    "any",
    "callable",
    ["tuple", "int", "int"],
    ["literal", "a", "warn", "none"],
    ["literal", 32, "32"],
    ["list", "int"],
    ["list", "str"],
    ["list", ["list", "str"]],
    ["list", ["union", "str", "none"]],
    ["dict", "str", "any"],
    ["dict", "str", "int"],
    ["dict", "int", "int"],
    ["union", "int", "none"],
    ["union", "str", "none"],
    ["union", "bool", ["literal", "link"], "none"],
    ["union", "int", "float", "none"],
    ["union", "float", ["list", "float"]],
    ["union", "int", "bool"],
    ["union", "int", ["list", "int"], "none"],
    ["union", "str", ["list", "str"], "none"],
    ["union", ["list", "str"], "str"],
    ["union", "str", ["dict", "str", "any"], "none"],
    ["union", "int", "str", "none"],
    ["union", "callable", "path", "str"],
    ["union", ["literal", 64, 32], ["literal", "bf16-mixed", "32"], "none"],
    ["union", "callable", "none"],
]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
ODD = st.sampled_from(
    [
        "none",
        "Null",
        "'a'",
        '"a"',
        "''",
        "Config",
        "Config[a.b]",
        "Partial x",
        "<Config",
        "it's",
        "a'b'",
        "1_000",
        "on",
        "yes",
        "0",
        "1e2",
        "inf",
        "[1]",
        "['a', 'b']",
        "[None]",
        "{'a': 1}",
        "{1: 2}",
        "(1, 2)",
        "'x",
        "\\",
        "",
        "a\\b",
        "'\\d'",
        "[",
        "{'a'",
        "'none'",
        "link",
        "['Config']",
        "b'a'",
        "[[]]",
        "[['a']]",
        "1j",
        "-1",
        '""',
        '"it\'s"',
        "'",
        '"',
        "''''",
        '"""',
    ]
)
TEXTS = ODD | st.text(max_size=10) | SCALARS.map(repr) | st.lists(SCALARS, max_size=3).map(repr)


def real(text: str, declared: Type) -> object:
    from nemo_run.cli import cli_parser

    cli_parser.parse_value.cache_clear()
    cli_parser.type_parser.get_parser.cache_clear()
    return cli_parser.type_parser.parse(text, annotation(declared))


@pytest.mark.parametrize("declared", TYPES, ids=type_words)
@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_the_model_reads_as_the_parser_does(declared: Type, text: str) -> None:
    try:
        expected = repr(real(text, declared))
    except Exception:
        expected = "refused"
    try:
        arrived = repr(read(text, declared))
    except UnreadableError:
        arrived = "refused"
    if "<Config[" in expected or "cli_read.AConfig object" in arrived:
        # What kind of node it would be is of no interest.
        assert "cli_read.AConfig object" in arrived
        assert expected == "refused" or "<Config[" in expected or "<Partial[" in expected
    else:
        assert arrived == expected.replace("PosixPath", "PurePosixPath")


def through_the_whole_parser(text: str, declared: Any) -> object:
    """What `nemo` makes of x=text for a function of one parameter."""
    from nemo_run.cli import cli_parser
    from nemo_run.cli.lazy import LazyEntrypoint

    def function(x):
        return x

    function.__annotations__ = {} if declared is None else {"x": declared}
    cli_parser.parse_value.cache_clear()
    cli_parser.type_parser.get_parser.cache_clear()
    return LazyEntrypoint(function, overwrites=[f"x={text}"]).resolve().x


TREES = st.recursive(
    SCALARS | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("declared", TYPES, ids=type_words)
@settings(max_examples=120, deadline=None)
@given(TREES)
@example("os.getcwd()")
@example("os.getcwd")
@example(["os.getcwd()"])
@example(["a, os.getcwd(), b"])
@example("a\nb")
@example("${oc.env:HOME}")
@example(["${oc.env:HOME}", "a\nb"])
@example({"a": "${oc.env:HOME}"})
@example("@recipe.yaml")
@example('it\'s "so"')
def test_what_is_spelt_arrives_through_the_whole_parser(declared: Type, value: Tree) -> None:
    try:
        text = spell(value, param(declared))
    except NotCarriedError:
        return
    arrived = through_the_whole_parser(text, annotation(declared))
    expected = Path(value) if isinstance(arrived, Path) and isinstance(value, str) else value
    assert arrived == expected


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20) | ODD)
@example("os.getcwd()")
@example("5")
@example("[1]")
def test_any_text_without_line_break_or_filling_in_arrives_as_a_str(value: str) -> None:
    if "\n" in value or "${" in value or "\0" in value:
        with pytest.raises(NotCarriedError):
            spell(value, param("str"))
        return
    text = spell(value, param("str"))
    assert text[0] in "'\"", "an unquoted dotted name would be imported and called"
    assert through_the_whole_parser(text, str) == value
    assert through_the_whole_parser(spell(value, param("str", INFERRED)), None) == value


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12) | ODD)
@example("a\nb ${oc.env:HOME}")
def test_any_text_at_all_arrives_where_anything_is_declared(value: str) -> None:
    assert through_the_whole_parser(spell(value, param("any")), Any) == value
    assert through_the_whole_parser(spell([value], param(["list", "str"])), list[str]) == [value]
    assert through_the_whole_parser(spell({"a": value}, param("any")), Any) == {"a": value}


@pytest.mark.parametrize(
    ("value", "declared", "parser", "reason"),
    [
        ("a\nb", "str", "typed", "a text is cut at a line break there"),
        ("a\0", "str", "typed", "no program takes such characters as an argument"),
        ("a\ud800", "str", "typed", "no program takes such characters as an argument"),
        ("${x}", "str", "typed", "${...} in a text is filled in there"),
        (None, ["union", "object", "str"], "typed", "it would arrive as the text 'None'"),
        (None, ["union", "path", "str"], "typed", "it would arrive as the path 'None'"),
        (["a"], ["union", "str", ["list", "str"]], "typed", "it would arrive as the text \"['a']\""),
        (True, ["union", "int", "float"], "typed", "int or float is needed there"),
        (1, "bool", "typed", "it would arrive as the value 'True'"),
        (1.0, "int", "typed", "int is needed there"),
        (
            {"_tuple_": [1, 2]},
            ["union", ["tuple", "int", "int"], "none"],
            "typed",
            "a tuple cannot be written there",
        ),
        (1, "int", REFUSED, "nothing is accepted there"),
        (None, ["object", "a.B"], TEXT, "nothing is accepted there but a config or a name"),
        ([1], "any", INFERRED, "anything is needed there"),
        ({"_target_": "a.b", "_call_": False}, "any", INFERRED, "no name is looked up there"),
        ({"_target_": "a b", "_call_": False}, "any", "typed", "no name is looked up there"),
        ([{"_target_": "a.B"}], ["list", "int"], "typed", "a list or dict there can hold plain values only"),
        (["a"], ["list", "any"], "typed", "list of anything is needed there"),
        ("a", ["literal", "b", "c"], "typed", "'b' or 'c' is needed there"),
    ],
)
def test_reasons(value: Tree, declared: Type, parser: str, reason: str) -> None:
    with pytest.raises(NotCarriedError) as caught:
        spell(value, param(declared, parser))
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("value", "declared", "text"),
    [
        (5, "int", "5"),
        (1e-05, "float", "1e-05"),
        (1, "float", "1"),
        (None, ["union", "int", "none"], "None"),
        ("a b", "str", "'a b'"),
        ("it's", "str", "'it's'"),
        ("it's", "any", '"it\'s"'),
        ([1, 0], ["union", "int", ["list", "int"]], "[1, 0]"),
        (["core_attn"], ["list", "str"], "['core_attn']"),
        ([float("inf"), 1.5], ["list", "float"], "['inf', 1.5]"),
        (["none"], ["list", ["union", "str", "none"]], "[\"'none'\"]"),
        ({"a": [1, "5"]}, "any", "{'a': [1, '5']}"),
        ({"_items_": [[0, 4]]}, ["dict", "int", "int"], "{0: 4}"),
        ({"_tuple_": [1, 2]}, "any", "(1, 2)"),
        (32, ["union", ["literal", 64, 32], ["literal", "32"]], "32"),
        ({"_target_": "torch.bfloat16", "_call_": False}, "dtype", "torch.bfloat16"),
        ({"_target_": "a.Color.red", "_call_": False}, ["enum", "a.Color"], "pydoc.locate('a.Color.red')"),
    ],
)
def test_spelling(value: Tree, declared: Type, text: str) -> None:
    assert spell(value, param(declared, TEXT if declared == "dtype" else "typed")) == text


def test_a_refused_parameter_reads_nothing() -> None:
    with pytest.raises(UnreadableError):
        read_word("1", param("int", REFUSED))
    assert read_word("1", param("int")) == 1
