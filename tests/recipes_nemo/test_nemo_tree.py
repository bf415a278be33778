"""Trees and configs turn into each other exactly, and a tree's names are checked."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import fiddle as fdl
import nemo_run as run
import pytest
from hypothesis import given, settings

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import nemo_recipe, recipe_tree, remote, schema
from cloudai_run.recipes.nemo.schema import Tree
from cloudai_run.recipes.nemo.tree import check, from_tree, to_tree
from tests.recipes_nemo.trees import node_at
from tests.recipes_nemo.values import values

SQUAD = "nemo.collections.llm.gpt.data.squad.SquadDataModule"


def small(value: object = None) -> run.Partial:
    """A recipe that holds a value where any is taken."""
    known = {
        "_target_": schema.PRETRAIN,
        "_partial_": True,
        "trainer": {
            "_target_": "nemo.lightning.pytorch.trainer.Trainer",
            "strategy": {
                "_target_": "nemo.lightning.pytorch.strategies.megatron_strategy.MegatronStrategy",
            },
        },
        "workload": {
            "_target_": "cloudai_run.recipes.nemo.workload.Workload",
            "factory": "llama3_8b",
            "schema_id": "nemo_2_7_3",
        },
    }
    recipe = from_tree(known)
    recipe.trainer.strategy.value_of_any_kind = value
    return recipe


def exact(tree: Tree) -> str:
    """A text that tells 1, 1.0 and True apart."""
    return json.dumps(tree, sort_keys=True)


@given(value=values)
@settings(deadline=None, max_examples=150)
def test_config_and_tree_are_inverses(value: object) -> None:
    recipe = small(value)
    tree = to_tree(recipe)
    assert from_tree(tree) == recipe
    assert exact(to_tree(from_tree(tree))) == exact(tree)
    assert json.loads(json.dumps(tree)) == tree


@given(value=values)
@settings(deadline=None, max_examples=60)
def test_building_keeps_the_whole_tree(value: object) -> None:
    recipe = small(value)
    seen: list[object] = []
    built = fdl.build(recipe)
    tree = to_tree(built)
    trainer = node_at(tree, "trainer")
    seen.append(trainer)
    assert exact(node_at(tree, "trainer")) == exact(node_at(to_tree(recipe), "trainer"))


def test_every_recipe_survives() -> None:
    for name in schema.load().recipes:
        assert exact(to_tree(from_tree(recipe_tree(name)))) == exact(recipe_tree(name))
    for name in ("llama3_8b", "deepseek_v3", "nemotronh_8b", "t5_220m"):
        recipe = nemo_recipe(name)
        assert from_tree(to_tree(recipe)) == recipe


def test_a_factory_made_node_keeps_its_factory() -> None:
    tree = recipe_tree("llama3_8b")
    tree["data"] = {"_target_": SQUAD, "_factory_": "squad", "_factory_args_": {"a": 1}, "seq_length": 128}
    recipe = from_tree(tree)
    assert (
        recipe.data.__fn_or_cls__
        is remote.nemo_2_7_3.factories.lightning.pytorch.core.datamodule.LightningDataModule.squad
    )
    assert recipe.data.seq_length == 128
    assert exact(to_tree(recipe)) == exact(tree)
    with pytest.raises(AttributeError, match="No parameter named 'seq_len'"):
        recipe.data.seq_len = 1


def test_values_with_another_form_become_it() -> None:
    recipe = small({"folder": Path("/a b"), "time": datetime.timedelta(minutes=1, microseconds=2)})
    value = node_at(to_tree(recipe), "trainer.strategy")["value_of_any_kind"]
    assert value == {
        "folder": "/a b",
        "time": {"_target_": "datetime.timedelta", "seconds": 60, "microseconds": 2},
    }


def test_real_objects_are_written_by_name() -> None:
    recipe = small([json.dumps, Path])
    value = node_at(to_tree(recipe), "trainer.strategy")["value_of_any_kind"]
    assert value == [
        {"_target_": "json.dumps", "_call_": False},
        {"_target_": "pathlib.Path", "_call_": False},
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, "trainer.strategy.value_of_any_kind: {1, 2} cannot be part of a recipe: "
                 "it has no name to import it by"),
        ([object], None),
        (lambda: 1, "cannot be part of a recipe: it has no name to import it by"),
        ([1, b"x"], "trainer.strategy.value_of_any_kind[1]: b'x' cannot be part of a recipe: "
                    "it has no name to import it by"),
    ],
)  # fmt: skip
def test_values_without_a_form_are_refused_by_path(value: object, message: str | None) -> None:
    recipe = small(value)
    if message is None:
        assert to_tree(recipe)
        return
    with pytest.raises(RecipeError) as raised:
        to_tree(recipe)
    assert message in str(raised.value)


def changed(path: str, **values: Tree) -> dict[str, Tree]:
    tree = recipe_tree("llama3_8b")
    node = node_at(tree, path) if path else tree
    node.update(values)
    return tree


NODE = {"_target_": "nemo.lightning.pytorch.trainer.Trainer"}


@pytest.mark.parametrize(
    ("path", "values", "message"),
    [
        ("trainer", {"max_step": 1}, "trainer (nemo.lightning.pytorch.trainer.Trainer) has no parameter max_step\n"
                                     "  did you mean max_steps or max_time?"),
        ("trainer", {"zzz": 1}, "trainer (nemo.lightning.pytorch.trainer.Trainer) has no parameter zzz\n"
                                "  it takes accelerator, strategy, devices, num_nodes, precision, logger, callbacks, "
                                "fast_dev_run ..."),
        ("trainer.strategy", {"tensor_model_parallel": 4},
         "trainer.strategy (nemo.lightning.pytorch.strategies.megatron_strategy.MegatronStrategy) has no parameter "
         "tensor_model_parallel\n"
         "  did you mean tensor_model_parallel_size or init_model_parallel?"),
        ("log.ckpt", {"save_lst": False},
         "log.ckpt (nemo.lightning.pytorch.callbacks.model_checkpoint.ModelCheckpoint) has no parameter save_lst\n"
         "  did you mean save_last or save_top_k?"),
        ("workload", {"smokes": True}, "workload (cloudai_run.recipes.nemo.workload.Workload) has no parameter smokes\n"
                                       "  did you mean smoke?"),
        ("", {"_target_": "os.system"}, "the tree is no recipe: its `_target_` is os.system, not "
                                        "nemo.collections.llm.api.pretrain"),
        ("trainer", {"logger": {"_target_": "os.system", "command": "touch pwned"}},
         "trainer.logger: NeMo 2.7.3 has no os.system that a recipe can use"),
        ("trainer", {"callbacks": [{"_target_": "nemo.utils.exp_manager.TimingCallbak"}]},
         "trainer.callbacks[0]: NeMo 2.7.3 has no nemo.utils.exp_manager.TimingCallbak that a recipe can use\n"
         "  did you mean nemo.utils.exp_manager.TimingCallback"),
        ("trainer", {"logger": {"_target_": "os.system", "_call_": False}},
         "trainer.logger: os.system is nothing that NeMo 2.7.3's recipes name"),
        ("trainer", {"logger": {"_target_": "torch.bfloat16", "_call_": False, "x": 1}},
         "trainer.logger: torch.bfloat16 takes no x"),
        ("trainer", {"logger": {**NODE, "_call_": True}},
         "trainer.logger: `_call_` can only be false and `_partial_` only true"),
        ("trainer", {"logger": {**NODE, "_factory_": "squad"}},
         "trainer.logger: NeMo 2.7.3 has no factory squad that makes a nemo.lightning.pytorch.trainer.Trainer"),
        ("trainer", {"logger": {**NODE, "_factory_args_": {}}},
         "trainer.logger: `_factory_args_` holds the arguments of a `_factory_`"),
        ("trainer", {"logger": {"_target_": 5}}, "trainer.logger: `_target_` is 5, not a dotted name"),
        ("trainer", {"logger": {"_call_": False}}, "trainer.logger has _call_ without a `_target_`"),
        ("trainer", {"logger": {"_repr_": "x"}}, "trainer.logger has _repr_ without a `_target_`"),
        ("trainer", {"logger": {"_tuple_": 5}}, "trainer.logger: `_tuple_` takes a list and stands alone"),
        ("trainer", {"logger": {"_items_": [[[], 1]]}}, "trainer.logger: `_items_` takes pairs of a key and a value"),
        ("data", {"dataset_root": {"a": [{"b": {**NODE, "max_stepz": 5}}]}},
         "data (nemo.collections.llm.gpt.data.mock.MockDataModule) has no parameter dataset_root"),
    ],
)  # fmt: skip
def test_unknown_names_are_refused_by_path(path: str, values: dict[str, Tree], message: str) -> None:
    with pytest.raises(RecipeError) as raised:
        from_tree(changed(path, **values))
    assert str(raised.value).startswith(message)
    assert len(str(raised.value).splitlines()) <= 2


def test_aliases_are_read_and_written_in_full() -> None:
    recipe = from_tree(changed("", trainer={"_target_": "nemo.lightning.Trainer"}))
    assert node_at(to_tree(recipe), "trainer")["_target_"] == "nemo.lightning.pytorch.trainer.Trainer"


def test_a_root_that_is_no_partial_is_refused() -> None:
    tree = recipe_tree("llama3_8b")
    del tree["_partial_"]
    with pytest.raises(RecipeError, match="the tree is no recipe: its root needs `_partial_: true`"):
        from_tree(tree)


def test_no_recipe_at_all_is_refused() -> None:
    with pytest.raises(RecipeError, match="5 is no recipe: a config node is needed"):
        to_tree(5)


def test_positional_arguments_are_refused() -> None:
    recipe = small(run.Config(slice, 1))
    with pytest.raises(RecipeError, match="value_of_any_kind has positional arguments: give them by name"):
        to_tree(recipe)


def test_recipes_of_the_schema_pass_their_own_check() -> None:
    known = schema.load()
    for name in known.recipes:
        check(recipe_tree(name), known)
