"""Properties: a value survives being written and read, and no text makes the parser fail otherwise than by refusal."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from cloudai_run.errors import UserError
from cloudai_run.overrides import apply, format_value, parse, split_run
from cloudai_run.overrides.convert import MARKS, convert
from cloudai_run.overrides.literals import parse_value
from cloudai_run.overrides.schema import SimpleSchema, Tree
from cloudai_run.recipes.nemo.schema import load

NOTHING = SimpleSchema({})
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
KEYS = TEXT.filter(lambda key: key not in MARKS)


def _as_tuple(items: list[Tree]) -> Tree:
    return {"_tuple_": items}


def _containers(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.lists(inner, max_size=4).map(_as_tuple)
    )


TREES: st.SearchStrategy[Tree] = st.recursive(ATOMS, _containers, max_leaves=12)
PATHS = st.sampled_from(
    (
        *("trainer.max_steps", "log.name", "trainer.devices", "trainer.callbacks", "optim.config.lr", "data"),
        *("+trainer.strategy.new_argument", "trainer.strategy.pipeline_dtype", "", "run.executor"),
        *("model.config.attention_backend", "model.config.window_size", "trainer.max_time", "run.plugins"),
    )
)
WORDS = st.builds(
    lambda path, operator, value: f"{path}{operator}{value}",
    PATHS | st.text(max_size=12),
    st.sampled_from(["=", "+=", "-=", "*=", "/=", "==", ""]),
    st.text(max_size=20) | st.text("[](){}'\",:=.-+@ab1e_\\", max_size=30),
)


@given(TREES)
@settings(max_examples=300, deadline=None)
def test_a_value_survives_being_written_and_read(tree: Tree) -> None:
    read = convert("any", parse_value(format_value(tree)), NOTHING)
    assert json.dumps(read) == json.dumps(tree)


@given(TEXT)
@settings(max_examples=300, deadline=None)
def test_quoted_text_is_that_text(text: str) -> None:
    assert convert("str", parse_value(format_value(text)), NOTHING) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_is_read_exactly(number: int) -> None:
    assert convert("int", parse_value(str(number)), NOTHING) == number


@given(st.lists(WORDS, max_size=4))
@settings(max_examples=400, deadline=None)
def test_any_words_apply_or_are_refused_in_six_printable_lines(words: list[str]) -> None:
    schema = load()
    tree = schema.recipe_tree("llama3_8b")
    try:
        apply(parse(split_run(words).recipe), tree, schema, "llama3_8b")
    except UserError as error:
        lines = str(error).split("\n")
        assert len(lines) <= 6
        assert all(line.isprintable() for line in lines)
    assert tree == schema.recipe_tree("llama3_8b")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=300, deadline=None)
def test_environment_values_arrive_byte_for_byte(value: str) -> None:
    assert split_run([f"run.env.NAME={value}"]).env == {"NAME": value}
