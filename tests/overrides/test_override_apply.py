"""How overrides act together: order, operators, elements, defaults, the record, and that nothing else changes."""

from __future__ import annotations

import copy
import json

from cloudai_run.overrides import Applied, Naming, apply, apply_recorded, parse
from cloudai_run.overrides.schema import Param, SimpleSchema, Target, Tree
from cloudai_run.recipes.nemo.schema import load

# A small configuration of typed knobs, as a framework without NeMo's classes would offer it.
KNOBS = SimpleSchema(
    targets={
        "pax": Target({"fdl": Param(["object", "fdl"]), "xla": Param(["dict", "str", "any"])}),
        "fdl": Target(
            {
                "max_steps": Param("int", True, 10),
                "betas": Param(["list", "float"], True, [0.9, 0.95]),
                "mesh": Param(["tuple", "int", "int", "int"], True, {"_tuple_": [1, 8, 1]}),
                "names": Param(["union", ["list", "str"], "none"], True, None),
                "notes": Param("str", True, "a"),
                "rate": Param(["union", "int", "float"], True, 16),
                "inner": Param(["object", "inner"], True, {"_target_": "inner", "depth": 2}),
                "table": Param(["union", ["dict", "str", "int"], "none"], True, None),
                "opaque": Param("any", True, {"_repr_": "<object>"}),
            }
        ),
        "inner": Target({"depth": Param("int", True, 1)}),
    }
)
TREE: dict[str, Tree] = {
    "_target_": "pax",
    "fdl": {"_target_": "fdl", "max_steps": 30},
    "xla": {"perf": {"xla_gpu_graph_level": 1}, "all": {}},
}


def knobs(*words: str) -> dict[str, Tree]:
    """Returns the tree of knobs with the overrides applied."""
    return apply(parse(words), TREE, KNOBS, "lm_126m")


def fdl(*words: str) -> Tree:
    """Returns only what the overrides changed in `fdl`."""
    changed = knobs(*words)["fdl"]
    assert isinstance(changed, dict)
    return {key: value for key, value in changed.items() if key not in ("_target_", "max_steps")}


def test_the_tree_that_went_in_stays_as_it_was() -> None:
    before = copy.deepcopy(TREE)
    knobs("fdl.max_steps=5", "xla.perf.xla_gpu_graph_level=0", "fdl.betas[0]=0.5", "xla.perf.new=1")
    assert before == TREE


def test_defaults_of_the_schema_stay_as_they_were() -> None:
    knobs("fdl.betas+=[0.99]", "fdl.inner.depth=7")
    assert KNOBS.targets["fdl"].params["betas"].default == [0.9, 0.95]
    assert fdl("fdl.inner.depth=3") == {"inner": {"_target_": "inner", "depth": 3}}


def test_no_override_gives_an_equal_tree() -> None:
    assert knobs() == TREE


def test_typed_knobs_use_the_same_checks() -> None:
    assert knobs("fdl.max_steps=1e2", "xla.perf.xla_gpu_graph_level=0") == {
        "_target_": "pax",
        "fdl": {"_target_": "fdl", "max_steps": 100},
        "xla": {"perf": {"xla_gpu_graph_level": 0}, "all": {}},
    }


def test_a_dict_takes_new_keys() -> None:
    assert knobs("xla.all.flag=True")["xla"] == {"perf": {"xla_gpu_graph_level": 1}, "all": {"flag": True}}


def test_numbers_take_all_operators_in_order() -> None:
    applied = knobs("fdl.max_steps+=10", "fdl.max_steps*=2", "fdl.max_steps-=5", "fdl.max_steps/=5")
    assert applied["fdl"] == {"_target_": "fdl", "max_steps": 15}
    assert isinstance(applied["fdl"], dict)
    assert isinstance(applied["fdl"]["max_steps"], int)


def test_assignment_and_then_an_operator() -> None:
    assert knobs("fdl.max_steps=5", "fdl.max_steps+=1")["fdl"] == {"_target_": "fdl", "max_steps": 6}


def test_exact_quotient_of_integers_stays_an_integer() -> None:
    assert json.dumps(fdl("fdl.rate/=4")) == '{"rate": 4}'
    assert json.dumps(fdl("fdl.rate/=5")) == '{"rate": 3.2}'
    assert json.dumps(fdl("fdl.rate*=0.5")) == '{"rate": 8.0}'


def test_list_grows_by_one_or_by_several() -> None:
    assert fdl("fdl.betas+=0.99") == {"betas": [0.9, 0.95, 0.99]}
    assert fdl("fdl.betas+=[0.99, 1]") == {"betas": [0.9, 0.95, 0.99, 1.0]}
    assert fdl("fdl.names+=[a]", "fdl.names+=b") == {"names": ["a", "b"]}


def test_string_and_dict_grow() -> None:
    assert fdl("fdl.notes+=b c") == {"notes": "ab c"}
    assert knobs("xla.perf+={'b': 2}")["xla"] == {"perf": {"xla_gpu_graph_level": 1, "b": 2}, "all": {}}


def test_element_of_a_list_and_of_a_tuple() -> None:
    assert fdl("fdl.betas[1]=1") == {"betas": [0.9, 1.0]}
    assert fdl("fdl.betas[-1]=1") == {"betas": [0.9, 1.0]}
    assert fdl("fdl.mesh[1]=4") == {"mesh": {"_tuple_": [1, 4, 1]}}
    assert fdl("fdl.mesh[1]*=2") == {"mesh": {"_tuple_": [1, 16, 1]}}


def test_dict_that_is_not_set_is_begun_by_a_key() -> None:
    assert fdl("fdl.table.a=1", "fdl.table.b=2") == {"table": {"a": 1, "b": 2}}


def test_repeat_of_an_equal_assignment_is_harmless() -> None:
    assert knobs("fdl.max_steps=5", "fdl.max_steps=5", "fdl.max_steps=5.0") == knobs("fdl.max_steps=5")


def test_element_of_a_list_that_was_just_given() -> None:
    assert fdl("fdl.names=[a,b]", "fdl.names[0]=c") == {"names": ["c", "b"]}


def test_record_says_which_overrides_wrote_a_path() -> None:
    applied: Applied = apply_recorded(
        parse(["fdl.betas[-1]=1", "fdl.max_steps=5", "fdl.max_steps+=1"]), TREE, KNOBS, Naming.recipe("lm")
    )
    assert {path: [str(o) for o in found] for path, found in applied.set_by.items()} == {
        "fdl.betas[1]": ["fdl.betas[-1]=1"],
        "fdl.max_steps": ["fdl.max_steps=5", "fdl.max_steps+=1"],
    }


def test_callback_of_nemo_is_added_and_then_changed() -> None:
    schema = load()
    words = [
        "trainer.callbacks+=[nemo.lightning.pytorch.callbacks.NsysCallback(start_step=5,end_step=6)]",
        "trainer.callbacks[1].ranks=[0,1]",
        "trainer.callbacks[-1].end_step=8",
    ]
    trainer = apply(parse(words), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")["trainer"]
    assert isinstance(trainer, dict)
    assert trainer["callbacks"] == [
        {"_target_": "nemo.utils.exp_manager.TimingCallback"},
        {
            "_target_": "nemo.lightning.pytorch.callbacks.nsys.NsysCallback",
            "start_step": 5,
            "end_step": 8,
            "ranks": [0, 1],
        },
    ]
