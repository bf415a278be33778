"""A whole tree that was edited by hand is checked like overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run.errors import UserError
from cloudai_run.overrides import Naming, check_tree
from cloudai_run.overrides.schema import Tree
from cloudai_run.recipes.nemo.schema import load
from tests.golden import assert_golden

LLAMA = "nemo.collections.llm.gpt.model.llama"
EDITS: list[tuple[str, Tree]] = [
    ("trainer.max_steps", "five"),
    ("trainer.max_steps", 5.5),
    ("trainer.max_step", 5),
    ("trainer.strategy.tensor_model_parallel", 4),
    ("trainer.strategy.sequence_parallel", "yes"),
    ("log.name", 5),
    ("optim.config.lr", "fast"),
    ("data.rampup_batch_size", [1, "a"]),
    ("data", None),
    ("data", {"_target_": "nemo.lightning.pytorch.trainer.Trainer"}),
    ("trainer.strategy.pipeline_dtype", {"_target_": "os.system", "_call_": False}),
    ("model.config", {"_target_": f"{LLAMA}.Llama3Config8B", "num_layers": "many"}),
    (
        "trainer.callbacks",
        [{"_target_": "nemo.utils.exp_manager.TimingCallback", "log_tokens_per_sec": "no"}],
    ),
]
FINE: list[tuple[str, Tree]] = [
    ("trainer.max_steps", 5),
    ("trainer.strategy.brand_new", {"any": ["thing"]}),
    ("log.ckpt", None),
    ("log.ckpt.train_time_interval", {"_target_": "datetime.timedelta", "hours": 1}),
    ("model.config", {"_target_": f"{LLAMA}.Llama3Config70B", "num_layers": 4}),
    ("workload", {"_target_": "cloudai_run.recipes.nemo.workload.Workload", "smoke": True}),
]


def edited(path: str, value: Tree) -> dict[str, Tree]:
    """Returns the tree of llama3_8b with one value written over."""
    tree = load().recipe_tree("llama3_8b")
    node: Tree = tree
    *parents, name = path.split(".")
    for parent in parents:
        assert isinstance(node, dict)
        node = node[parent]
    assert isinstance(node, dict)
    node[name] = value
    return tree


def check(tree: dict[str, Tree]) -> None:
    """Checks a tree of llama3_8b, which has a workload of its own."""
    recipe: dict[str, Tree] = {**load().recipe_tree("llama3_8b"), "workload": tree.get("workload")}
    check_tree(tree, recipe, load(), Naming.recipe("llama3_8b"))


def test_wrong_edits_are_refused_with_their_text() -> None:
    blocks: list[str] = []
    for path, value in EDITS:
        with pytest.raises(UserError) as caught:
            check(edited(path, value))
        assert len(str(caught.value).splitlines()) <= 6
        blocks.append(f"# {path}: {value}\nerror: {caught.value}\n")
    assert_golden(Path(__file__).parent / "golden" / "check.txt", "\n".join(blocks))


@pytest.mark.parametrize(("path", "value"), FINE)
def test_right_edits_pass(path: str, value: Tree) -> None:
    check(edited(path, value))


def test_what_a_recipe_sets_itself_passes() -> None:
    schema = load()
    for name in schema.recipes:
        tree = schema.recipe_tree(name)
        check_tree(tree, tree, schema, Naming.recipe(name))


def test_nearly_all_recipes_obey_their_own_annotations() -> None:
    schema = load()
    refused = []
    for name in schema.recipes:
        try:
            check_tree(schema.recipe_tree(name), {}, schema, Naming.recipe(name))
        except UserError:
            refused.append(name)
    # NeMo annotates these wrongly itself (a text for an enum, None for an int, a class beside the named one).
    assert {name.split("_")[0] for name in refused} <= {"nemotron", "nemotronh", "t5", "hyena"}
