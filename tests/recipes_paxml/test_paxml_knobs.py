"""Knobs as fiddle nodes, and as arguments of paxml.main."""

from __future__ import annotations

import ast
import math
from operator import attrgetter

import fiddle as fdl
import nemo_run as run
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import knobs

GROK = "paxml.tasks.lm.params.nvidia.Grok"

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=8)


def read_by_paxml(text: str) -> object:
    """What PAXML makes of a value: true and false in any case, else a Python literal."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return ast.literal_eval(text)


@given(VALUES)
def test_values_come_back_equal(value: object) -> None:
    assert read_by_paxml(knobs.literal("x", value)) == value


def test_tuples_are_given_as_lists() -> None:
    assert knobs.literal("ici_mesh_shape", (1, 8)) == "[1, 8]"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, object(), {"a": 1}, [math.nan]])
def test_values_without_a_literal_are_refused(value: object) -> None:
    with pytest.raises(
        RecipeError, match=r"^fdl\.learning_rate is .*, which PAXML cannot be given\n  it takes True"
    ):
        knobs.literal("learning_rate", value)


def test_arguments_are_sorted_and_upper_case() -> None:
    args = knobs.knob_args({"max_steps": 30, "fprop_dtype": "bfloat16", "use_fp8": True})
    assert args == ("--fdl.FPROP_DTYPE='bfloat16'", "--fdl.MAX_STEPS=30", "--fdl.USE_FP8=True")


def test_a_node_shows_the_class_s_values_and_takes_the_user_s() -> None:
    node = run.Config(knobs.knobs_class(GROK), max_steps=30)
    assert node.num_layers == 64
    assert node.ici_mesh_shape == (1, 1, 8, 1)
    node.num_layers = 2
    assert vars(fdl.build(node)) == {"max_steps": 30, "num_layers": 2}


def test_a_node_refuses_an_unknown_knob_at_once() -> None:
    node = run.Config(knobs.knobs_class(GROK))
    with pytest.raises(AttributeError, match="No parameter named 'max_stepz'"):
        node.max_stepz = 3


def test_the_class_itself_refuses_an_unknown_knob() -> None:
    with pytest.raises(RecipeError, match=r"has no knob fdl\.max_stepz"):
        knobs.knobs_class(GROK)(max_stepz=3)


def test_open_knobs_take_anything() -> None:
    assert vars(fdl.build(run.Config(knobs.knobs_class("my.Class"), my_window=3))) == {"my_window": 3}


def test_classes_are_found_by_path() -> None:
    assert attrgetter(GROK)(knobs) is knobs.knobs_class(GROK)
    with pytest.raises(AttributeError, match=rf"no known PAXML experiment class {GROK}k\n  did you mean"):
        attrgetter(GROK + "k")(knobs)


def test_nodes_survive_nemo_run_s_serialization() -> None:
    node = run.Config(knobs.knobs_class(GROK), max_steps=30, dcn_mesh_shape=[1, 8, 1, 1])
    serializer = ZlibJSONSerializer()
    assert serializer.deserialize(serializer.serialize(node)) == node
