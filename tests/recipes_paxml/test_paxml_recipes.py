"""Every recipe: its configuration as a golden text, its catalogue entry, its tree."""

from __future__ import annotations

import importlib
from pathlib import Path

import fiddle as fdl
import nemo_run as run
import pytest
from fiddle import printing
from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer

from cloudai_run.recipes import paxml
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import api, base, catalogue, facts, rules, tree
from cloudai_run.recipes.paxml.settings import Place, flags_of, placed, settings_of
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(catalogue.RECIPES)


@pytest.mark.parametrize("name", NAMES)
def test_configuration(name: str) -> None:
    lines = printing.as_str_flattened(getattr(paxml, name)(), include_types=False).splitlines()
    text = "".join(f"{line}\n" for line in lines if "<[unset" not in line)
    assert_golden(GOLDEN / f"config-{name}.txt", text)


@pytest.mark.parametrize("name", NAMES)
def test_names_and_documentation(name: str) -> None:
    module, _, function = catalogue.RECIPES[name]["factory"].partition(":")
    factory = getattr(importlib.import_module(module), function)
    assert factory is getattr(paxml, name)
    assert factory.__doc__
    assert factory().workload.factory == name


def test_every_factory_is_in_the_catalogue() -> None:
    for module in ("gpt_recipes", "grok_recipes", "nemotron_recipes", "any_recipe"):
        loaded = importlib.import_module(f"cloudai_run.recipes.paxml.{module}")
        public = {
            name
            for name, value in vars(loaded).items()
            if getattr(value, "__module__", "") == loaded.__name__
        }
        assert {name for name in public if not name.startswith("_")} <= catalogue.RECIPES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_each_fits_the_layout_that_it_is_for(name: str) -> None:
    recipe = getattr(paxml, name)()
    layout = api.layout_of(tree.to_tree(recipe))
    assert api.violations(tree.to_tree(recipe), *layout) == []
    fdl.build(recipe)


@pytest.mark.parametrize("name", NAMES)
def test_trees_and_serialization_are_exact(name: str) -> None:
    recipe = getattr(paxml, name)()
    assert tree.from_tree(tree.to_tree(recipe)) == recipe
    serializer = ZlibJSONSerializer()
    assert serializer.deserialize(serializer.serialize(recipe)) == recipe


def test_an_unknown_recipe_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'grok2'"):
        _ = paxml.grok2
    with pytest.raises(RecipeError, match="no PAXML recipe is called grok2\n  did you mean grok1"):
        api.recipe_tree("grok2")


def test_a_recipe_names_who_makes_its_stages() -> None:
    assert (
        getattr(fdl.get_callable(paxml.grok1()), "stages_from", None)
        == "cloudai_run.stages_paxml:paxml_stages"
    )


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("gpt", {"xla_gpu_all_reduce_combine_threshold_bytes": 447741952}),
        ("gpt", {"xla_gpu_enable_while_loop_double_buffering": False}),
        (
            "grok1",
            {"xla_gpu_use_memcpy_local_p2p": False, "xla_gpu_run_post_layout_collective_pipeliner": False},
        ),
        ("nemotron", {"xla_gpu_reduce_scatter_combine_threshold_bytes": 6291456}),
    ],
)
def test_each_model_s_own_flags_reach_the_perf_stage(name: str, flags: dict[str, object]) -> None:
    recipe = getattr(paxml, name)()
    settings = settings_of(recipe)
    profile, perf = flags_of(settings, "profile", 512), flags_of(settings, "perf", 512)
    assert flags.items() <= perf.items()
    assert base.COMMON_FLAGS.keys() <= perf.keys()
    assert profile["xla_gpu_enable_latency_hiding_scheduler"] is False
    assert perf["xla_gpu_enable_latency_hiding_scheduler"] is True
    assert facts.facts(settings, 64, 8)["xla_flags"] == {"profile": profile, "perf": perf}


def test_precisions() -> None:
    fp8, bf16 = paxml.grok1_h100_fp8(), paxml.grok1_h100_bf16()
    assert (fp8.fdl.use_fp8, fp8.pgle.enabled, fp8.workload.gpu) == (True, True, "H100")
    assert (bf16.fdl.use_fp8, bf16.pgle.enabled) == (False, False)
    assert (facts.precision(settings_of(fp8)), facts.precision(settings_of(bf16))) == ("fp8", "bf16")


def test_facts_of_grok1() -> None:
    found = api.facts(api.recipe_tree("grok1_h100_fp8"), 32, 8)
    del found["xla_flags"]
    assert found == {
        "global_batch_size": 256,
        "micro_batch_size": None,
        "seq_length": 8192,
        "max_steps": 20,
        "precision": "fp8",
        "model": {
            "family": "grok",
            "name": "Grok",
            "num_layers": 64,
            "hidden_size": 6144,
            "ffn_hidden_size": 32768,
            "num_attention_heads": 48,
            "num_query_groups": 8,
            "kv_channels": 128,
            "vocab_size": 131072,
            "gated_linear_unit": True,
            "num_moe_experts": 8,
            "moe_router_topk": 2,
        },
        "gpu_model": "H100",
        "container_image": None,
        "stages": [
            {"name": "profile", "framework": "paxml", "measured": False},
            {"name": "perf", "framework": "paxml", "measured": True},
        ],
    }


def test_facts_of_the_others() -> None:
    nemotron = api.facts(api.recipe_tree("nemotron"), 64, 8)["model"]
    assert isinstance(nemotron, dict)
    assert (nemotron["gated_linear_unit"], nemotron["num_query_groups"], nemotron["kv_channels"]) == (
        False,
        8,
        192,
    )
    gpt = api.facts(api.recipe_tree("gpt_175b"), 32, 8)
    assert (gpt["global_batch_size"], gpt["seq_length"]) == (1536, 2048)
    assert api.facts(api.recipe_tree("gpt_nvidia5b"), 2, 8)["micro_batch_size"] == 2
    unknown = api.facts(api.recipe_tree("paxml", fdl_config="my.Class"), 1, 8)
    assert (unknown["model"], unknown["global_batch_size"], unknown["precision"]) == (None, None, None)


def test_with_layout_moves_the_meshes_that_are_unset() -> None:
    moved = api.with_layout(api.recipe_tree("grok1"), 4, 8)
    assert api.layout_of(moved) == (4, 8)
    assert api.violations(moved, 4, 8) == []
    knobs = placed(settings_of(moved), Place(4, 8)).knobs
    assert (knobs["dcn_mesh_shape"], knobs["ici_mesh_shape"], knobs["num_groups"]) == (
        [1, 4, 1, 1],
        [1, 1, 8, 1],
        32,
    )


def test_the_command_for_a_person() -> None:
    words = api.command(api.recipe_tree("grok1"), 8, 8)
    assert words[:4] == (
        "python3",
        "-u",
        "RUN_FOLDER/paxml/cloudai_run_rank.py",
        "--fdl_config=paxml.tasks.lm.params.nvidia.Grok",
    )
    assert words[-3:] == (
        "--server_addr=$HEAD_NODE:job-$SLURM_JOB_ID",
        "--num_hosts=$SLURM_NTASKS",
        "--host_idx=$SLURM_PROCID",
    )


def test_another_experiment_class_by_override() -> None:
    moved = api.with_fdl_config(api.recipe_tree("nemotron"), "my_package.Mine")
    assert settings_of(moved).fdl_config == "my_package.Mine"
    assert settings_of(moved).knobs == settings_of(api.recipe_tree("nemotron")).knobs


def test_any_class_of_ones_own() -> None:
    recipe = paxml.paxml("my_package.Mine")
    recipe.fdl.my_window = 7
    assert tree.from_tree(tree.to_tree(recipe)) == recipe
    assert not rules.check(settings_of(recipe), Place(1, 8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_target_": "os.system"}, "recipe is a os.system, which is no part of a PAXML recipe"),
        ({"pgle": {"_target_": "cloudai_run.recipes.paxml.nodes.Nope"}}, "recipe.pgle is a .*nodes.Nope: "),
        (
            {"pgle": {"_target_": "cloudai_run.recipes.paxml.nodes.Pgle", "mod": 1}},
            "recipe.pgle: No parameter named",
        ),
        ({"_partial_": False}, "the tree is no PAXML recipe: its root is no partial"),
    ],
)
def test_foreign_trees_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        tree.from_tree({**api.recipe_tree("grok1"), **change})  # pyright: ignore[reportArgumentType]


def test_objects_have_no_place_in_a_tree() -> None:
    recipe = paxml.grok1()
    recipe.workload.env["X"] = object()
    with pytest.raises(RecipeError, match=r"recipe\.workload\.env\.X is <object"):
        tree.to_tree(recipe)


def test_a_recipe_without_a_part_is_refused() -> None:
    recipe = paxml.grok1()
    del recipe.pgle
    with pytest.raises(RecipeError, match="the PAXML recipe lacks pgle"):
        settings_of(recipe)


def test_the_root_is_a_partial_of_nemo_run() -> None:
    assert isinstance(paxml.grok1(), run.Partial)
