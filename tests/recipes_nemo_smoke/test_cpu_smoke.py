"""How a recipe is shrunk for a CPU, without NeMo."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import llama3_8b, recipe_tree
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.smoke import SHIM_FILE, cpu_smoke, smoke_argv
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
RECIPES = (
    *("llama3_8b", "llama3_70b", "llama31_8b", "llama31_70b", "llama31_405b"),
    *("nemotron4_15b", "nemotron4_340b", "mixtral_8x7b", "gpt3_175b"),
)


def shrink(
    change: Callable[[dict[str, Any]], object], recipe: str = "llama3_8b", **processes: int
) -> tuple[dict[str, Any], list[str]]:
    tree: dict[str, Any] = recipe_tree(recipe)
    change(tree)
    return cpu_smoke(tree, **processes)


@pytest.mark.parametrize("recipe", RECIPES)
def test_golden(recipe: str) -> None:
    shrunk, resets = shrink(lambda tree: tree["trainer"].update(max_steps=3), recipe)
    assert resets == []
    argv = smoke_argv(shrunk, python="python", shim="cpu_shim.py", log_dir="run folder/results")
    assert_golden(GOLDEN / f"{recipe}.txt", "".join(f"{word}\n" for word in argv))


@pytest.mark.parametrize("recipe", RECIPES)
def test_shrinking_twice_changes_nothing(recipe: str) -> None:
    once, _ = shrink(lambda tree: None, recipe)
    twice, resets = cpu_smoke(once)
    assert twice == once
    assert resets == []


def test_every_recipe_of_nemo_can_be_shrunk() -> None:
    for recipe in schemas.load().recipes:
        shrunk, resets = shrink(lambda tree: None, recipe)
        assert resets == [], recipe
        assert smoke_argv(shrunk)[6] == recipe


def test_the_recipe_given_stays_as_it_is() -> None:
    tree: dict[str, Any] = recipe_tree("llama3_70b")
    before = copy.deepcopy(tree)
    cpu_smoke(tree)
    assert tree == before


def test_a_partial_gives_a_partial() -> None:
    recipe = llama3_8b()
    recipe.trainer.strategy.tensor_model_parallel_size = 4
    recipe.optim.config.lr = 0.01
    shrunk, resets = cpu_smoke(recipe)
    assert resets == ["trainer.strategy.tensor_model_parallel_size 4 -> 1"]
    assert (shrunk.model.config.num_layers, shrunk.optim.config.lr) == (2, 0.01)
    assert shrunk.workload.smoke is True
    assert recipe.workload.smoke is False
    assert "optim.config.lr=0.01" in smoke_argv(shrunk)


def set_gpu_only(tree: dict[str, Any]) -> None:
    tree["trainer"] |= {"devices": 4, "num_nodes": 2, "limit_val_batches": 3, "enable_checkpointing": True}
    tree["trainer"]["strategy"] |= {"tensor_model_parallel_size": 4, "sequence_parallel": True}
    tree["trainer"]["plugins"]["fp8"] = "hybrid"
    tree["model"]["config"] |= {"tp_comm_overlap": True, "apply_rope_fusion": True, "hidden_size": 8192}
    tree["data"] = {"_target_": "nemo.collections.llm.gpt.data.squad.SquadDataModule", "_factory_": "squad"}
    tree["trainer"]["callbacks"].append(
        {"_target_": "nemo.lightning.pytorch.callbacks.MegatronCommOverlapCallback", "tp_comm_overlap": True}
    )


def test_what_a_cpu_cannot_honour_is_set_back_and_told() -> None:
    shrunk, resets = shrink(set_gpu_only)
    assert resets == [
        "data squad -> MockDataModule",
        "model.config.hidden_size 8192 -> 64",
        "model.config.apply_rope_fusion True -> False",
        "model.config.tp_comm_overlap True -> False",
        "trainer.strategy.tensor_model_parallel_size 4 -> 1",
        "trainer.strategy.sequence_parallel True -> False",
        "trainer.plugins.fp8 hybrid -> None",
        "trainer.devices 4 -> 1",
        "trainer.num_nodes 2 -> 1",
        "trainer.enable_checkpointing True -> False",
        "trainer.limit_val_batches 3 -> 0",
        "trainer.callbacks without MegatronCommOverlapCallback",
    ]
    assert [callback["_target_"] for callback in shrunk["trainer"]["callbacks"]] == [
        "nemo.utils.exp_manager.TimingCallback"
    ]


def test_everything_else_arrives() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["model"]["config"] |= {"num_layers": 3, "attention_dropout": 0.1}
        tree["data"] |= {"global_batch_size": 8, "num_workers": 2}
        tree["trainer"] |= {"max_steps": 7, "val_check_interval": 4, "log_every_n_steps": 1}
        tree["trainer"]["strategy"]["new_arg"] = "x"
        tree["optim"]["lr_scheduler"] = None
        tree["log"] |= {"name": "mine", "tensorboard": None, "log_dir": "/elsewhere"}
        tree["log"]["ckpt"]["save_last"] = False

    shrunk, resets = shrink(change)
    assert resets == []
    argv = smoke_argv(shrunk, log_dir="/results")
    for word in (
        *("model.config.num_layers=3", "model.config.attention_dropout=0.1", "data.global_batch_size=8"),
        *("data.num_workers=2", "trainer.max_steps=7", "trainer.val_check_interval=4"),
        *("trainer.log_every_n_steps=1", "trainer.strategy.new_arg='x'", "optim.lr_scheduler=None"),
        *("log.name='mine'", "log.tensorboard=None", "log.log_dir='/elsewhere'", "log.ckpt.save_last=False"),
    ):
        assert word in argv


@pytest.mark.parametrize(
    ("config", "data", "expected"),
    [
        ({}, {}, (64, 4, 4, 64, 1, 2)),
        ({"num_attention_heads": 2}, {}, (64, 2, 2, 64, 1, 2)),
        ({"hidden_size": 96}, {}, (96, 4, 4, 64, 1, 2)),
        ({"hidden_size": 100}, {}, (64, 4, 4, 64, 1, 2)),
        ({"num_attention_heads": 6}, {}, (64, 4, 4, 64, 1, 2)),
        ({"hidden_size": 96, "num_attention_heads": 6, "num_query_groups": 3}, {}, (96, 6, 3, 64, 1, 2)),
        ({}, {"seq_length": 32}, (64, 4, 4, 32, 1, 2)),
        ({"seq_length": 128}, {}, (64, 4, 4, 64, 1, 2)),
        ({}, {"micro_batch_size": 4}, (64, 4, 4, 64, 4, 8)),
        ({}, {"micro_batch_size": 2, "global_batch_size": 6}, (64, 4, 4, 64, 2, 6)),
        ({}, {"micro_batch_size": 4, "global_batch_size": 6}, (64, 4, 4, 64, 4, 8)),
        ({}, {"global_batch_size": 4096}, (64, 4, 4, 64, 1, 2)),
    ],
)
def test_sizes_fit_each_other(
    config: dict[str, int], data: dict[str, int], expected: tuple[int, ...]
) -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["model"]["config"] |= config
        tree["data"] |= data

    shrunk, resets = shrink(change)
    made, batch = shrunk["model"]["config"], shrunk["data"]
    assert made["seq_length"] == batch["seq_length"]
    shape = (made["hidden_size"], made["num_attention_heads"], made["num_query_groups"], batch["seq_length"])
    assert (*shape, batch["micro_batch_size"], batch["global_batch_size"]) == expected
    kept = {**made, **{f"data.{name}": value for name, value in batch.items()}}
    lost = [
        name
        for name, value in {**config, **{f"data.{k}": v for k, v in data.items()}}.items()
        if kept[name] != value
    ]
    assert len(resets) == len(lost)


def test_steps_and_the_interval_of_validation() -> None:
    unset, _ = shrink(lambda tree: None)
    assert (unset["trainer"]["max_steps"], unset["trainer"]["val_check_interval"]) == (5, 5)
    few, resets = shrink(lambda tree: tree["trainer"].update(max_steps=3, val_check_interval=100))
    assert few["trainer"]["val_check_interval"] == 3
    assert resets == ["trainer.val_check_interval 100 -> 3"]


def test_processes_share_the_batch() -> None:
    shrunk, resets = shrink(lambda tree: tree["trainer"].update(num_nodes=2), num_processes=4, num_nodes=2)
    assert resets == []
    assert (shrunk["trainer"]["num_nodes"], shrunk["trainer"]["devices"]) == (2, 2)
    assert shrunk["data"]["global_batch_size"] == 8
    assert smoke_argv(shrunk, num_nodes=2, num_processes_per_node=2)[-2:] == (
        "trainer.num_nodes=2",
        "trainer.devices=2",
    )


def test_the_command_by_itself() -> None:
    shrunk, _ = shrink(lambda tree: None)
    argv = smoke_argv(shrunk)
    assert argv[:7] == (sys.executable, str(SHIM_FILE), "llm", "pretrain", "--yes", "--factory", "llama3_8b")
    assert not any(word.startswith("log.log_dir") for word in argv)
    assert SHIM_FILE.is_file()


def test_the_shim_imports_nothing_of_this_project() -> None:
    assert "cloudai_run" not in SHIM_FILE.read_text(encoding="utf-8")


def test_a_tree_that_does_not_say_its_recipe() -> None:
    with pytest.raises(RecipeError, match="does not say which recipe"):
        cpu_smoke({"_target_": "nemo.collections.llm.api.pretrain"})
