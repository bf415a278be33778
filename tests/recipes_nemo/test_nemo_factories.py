"""The factories: each recipe's whole configuration, and what a user does with it in Python."""

from __future__ import annotations

import copy
import functools
import inspect
import subprocess
import sys
from pathlib import Path

import fiddle as fdl
import nemo_run as run
import pytest
from fiddle import diffing, printing
from nemo_run.core.serialization.yaml import YamlSerializer
from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer

from cloudai_run.recipes import nemo
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import recipe_tree, remote, schema
from cloudai_run.recipes.nemo.workload import Workload
from tests.golden import assert_golden
from tests.recipes_nemo.trees import flattened, node_at

GOLDEN = Path(__file__).parent / "golden"
NAMES = (
    "llama3_8b",
    "llama3_70b",
    "llama31_8b",
    "llama31_70b",
    "llama31_405b",
    "nemotron4_15b",
    "nemotron4_340b",
    "mixtral_8x7b",
    "gpt3_175b",
)


@pytest.mark.parametrize("name", NAMES)
def test_recipe_is_as_reviewed(name: str) -> None:
    text = "\n".join(flattened(recipe_tree(name))) + "\n"
    assert_golden(GOLDEN / "recipes" / f"{name}.txt", text)


@pytest.mark.parametrize("name", NAMES)
def test_factory_takes_the_size(name: str) -> None:
    recipe = getattr(nemo, name)(num_nodes=3, num_gpus_per_node=5)
    assert isinstance(recipe, run.Partial)
    assert (recipe.trainer.num_nodes, recipe.trainer.devices) == (3, 5)
    assert recipe.workload.factory == name


@pytest.mark.parametrize("name", NAMES)
def test_factory_defaults_are_nemos_own(name: str) -> None:
    own = {
        key: param.default
        for key, param in inspect.signature(getattr(nemo, name)).parameters.items()
        if key in ("num_nodes", "num_gpus_per_node")
    }
    nemos = schema.load().recipes[name].defaults
    assert own == {key: nemos[key] for key in own}
    trainer = node_at(schema.load().recipe_tree(name), "trainer")
    assert own == {"num_nodes": trainer["num_nodes"], "num_gpus_per_node": trainer["devices"]}


def test_every_recipe_of_the_schema_builds() -> None:
    known = schema.load()
    for name in known.recipes:
        recipe = nemo.nemo_recipe(name)
        assert remote.name_of(fdl.get_callable(recipe)) == schema.PRETRAIN
        built = fdl.build(recipe)
        assert isinstance(built, functools.partial)
        assert built.func is fdl.get_callable(recipe)
    assert len(known.recipes) == 97


def test_settings_reach_the_workload() -> None:
    recipe = nemo.llama3_8b(container_image="nvcr.io/nvidia/nemo:25.09", env={"A": "1"}, smoke=True)
    workload = fdl.build(recipe.workload)
    assert isinstance(workload, Workload)
    assert workload.container_image == "nvcr.io/nvidia/nemo:25.09"
    assert (workload.env, workload.smoke, workload.schema_id) == ({"A": "1"}, True, "nemo_2_7_3")


def test_unknown_recipe_is_refused_with_the_nearest() -> None:
    with pytest.raises(RecipeError) as raised:
        nemo.nemo_recipe("llama3_9b")
    assert str(raised.value) == (
        "NeMo 2.7.3 has no recipe llama3_9b\n  did you mean llama3_8b or llama3_70b?"
    )


def test_attributes_read_and_write_like_nemos() -> None:
    recipe = nemo.llama3_8b()
    assert recipe.trainer.strategy.context_parallel_size == 2
    assert recipe.model.config.hidden_size == 4096, "a default that the recipe does not set"
    recipe.model.config.num_layers = 4
    recipe.trainer.strategy.new_argument = 1
    assert (recipe.model.config.num_layers, recipe.trainer.strategy.new_argument) == (4, 1)
    del recipe.model.config.num_layers
    assert recipe.model.config.num_layers == 32


def test_wrong_attribute_is_refused_with_what_is_valid() -> None:
    recipe = nemo.llama3_8b()
    with pytest.raises(AttributeError) as raised:
        recipe.trainer.max_stepz = 5
    assert str(raised.value).startswith(
        "No parameter named 'max_stepz' exists for nemo.lightning.pytorch.trainer.Trainer; "
        "valid parameter names: accelerator, strategy, devices, num_nodes, precision,"
    )
    with pytest.raises(AttributeError, match="No parameter 'max_stepz' has been set"):
        _ = recipe.trainer.max_stepz


def test_defaults_cannot_be_changed_for_other_recipes() -> None:
    callback = run.Config(
        remote.standin("nemo_2_7_3", "nemo.lightning.pytorch.callbacks.NsysCallback"),
        start_step=1,
        end_step=2,
    )
    assert callback.ranks == [0]
    with pytest.raises(AttributeError, match="append"):
        callback.ranks.append(1)
    assert repr(callback.ranks) == "<default [0]>"


def test_copies_are_equal_and_independent() -> None:
    recipe = nemo.llama3_8b()
    for other in (copy.deepcopy(recipe), recipe.clone(), fdl.deepcopy_with(recipe)):
        assert other == recipe
        other.trainer.max_steps = 1
        assert other != recipe
        assert recipe.trainer.max_steps == 1168251
    shallow = copy.copy(recipe)
    shallow.resume = None
    assert recipe.resume is not None


def test_printing_shows_nemos_names() -> None:
    recipe = nemo.llama3_8b()
    lines = printing.as_str_flattened(recipe).splitlines()
    assert "trainer.max_steps = 1168251" in lines
    assert "trainer.plugins.params_dtype = torch.bfloat16" in lines
    assert "nemo_2_7_3.nemo.lightning.pytorch.trainer.Trainer(" in repr(recipe)


def test_diffing_names_what_was_changed() -> None:
    recipe, changed = nemo.llama3_8b(), nemo.llama3_8b()
    changed.trainer.max_steps = 5
    changed.model.config.num_layers = 2
    diff = diffing.build_diff(recipe, changed)
    paths = {"".join(part.code for part in change.target) for change in diff.changes}
    assert paths == {".trainer.max_steps", ".model.config.num_layers"}


def test_nemo_run_reads_its_own_json_in_another_process(tmp_path: Path) -> None:
    recipe = nemo.mixtral_8x7b(env={"A": "b c"})
    recipe.trainer.strategy.pipeline_dtype = remote.standin("nemo_2_7_3", "torch.float16")
    recipe.model.config.attention_backend = remote.standin(
        "nemo_2_7_3", "megatron.core.transformer.enums.AttnBackend.flash"
    )
    file = tmp_path / "recipe"
    file.write_text(ZlibJSONSerializer().serialize(recipe))
    program = (
        "import sys; from pathlib import Path\n"
        "from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer\n"
        "recipe = ZlibJSONSerializer().deserialize(Path(sys.argv[1]).read_text())\n"
        "print(recipe.trainer.strategy.pipeline_dtype, recipe.model.config.attention_backend)\n"
        "Path(sys.argv[1]).write_text(ZlibJSONSerializer().serialize(recipe))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed == "torch.float16 megatron.core.transformer.enums.AttnBackend.flash\n"
    assert ZlibJSONSerializer().deserialize(file.read_text()) == recipe


def test_nemo_run_writes_its_yaml() -> None:
    text = YamlSerializer().serialize(nemo.llama3_8b())
    assert "_target_: cloudai_run.recipes.nemo.remote.nemo_2_7_3.nemo.collections.llm.api.pretrain\n" in text
    assert "  _call_: false\n" in text
    assert "max_steps: 1168251\n" in text


def test_walking_and_broadcasting_work() -> None:
    recipe = nemo.llama3_8b()
    recipe.broadcast(seq_length=128)
    assert recipe.data.seq_length == 128
    recipe.walk(max_steps=lambda node: node.max_steps + 1)
    assert recipe.trainer.max_steps == 1168252
