"""Any recipe, shrunk for CPUs."""

from __future__ import annotations

import pytest

from cloudai_run.recipes import paxml
from cloudai_run.recipes.paxml import api, catalogue, rules, schema, smoke, stages, tree, xla
from cloudai_run.recipes.paxml.settings import Place, flags_of, settings_of

LAYOUTS = [(1, 1), (2, 1), (1, 2), (2, 4)]


@pytest.mark.parametrize(("nodes", "ranks"), LAYOUTS)
@pytest.mark.parametrize("name", sorted(catalogue.RECIPES))
def test_every_recipe_shrinks_to_what_can_run(name: str, nodes: int, ranks: int) -> None:
    small, _ = smoke.cpu_smoke(getattr(paxml, name)(), num_nodes=nodes, ranks_per_node=ranks)
    settings = settings_of(small)
    assert rules.check(settings, Place(nodes, ranks)) == []
    assert settings.fdl_config.startswith("cloudai_run_paxml."), (
        "only the project's own classes are everywhere"
    )
    assert settings.number("model_dims") == 64
    for stage in ("profile", "perf"):
        flags = flags_of(settings, stage, nodes * ranks)
        assert not [name for name, value in flags.items() if xla.problem(name, value, smoke.CPU_JAXLIB)]


def test_grok_becomes_a_small_mixture_of_experts() -> None:
    recipe = paxml.grok1()
    recipe.fdl.max_steps = 8
    small, resets = smoke.cpu_smoke(recipe, num_nodes=2, python="/venv/bin/python")
    assert small.fdl_config == "cloudai_run_paxml.SmokeMoe"
    assert small.fdl.max_steps == 8
    assert (small.fdl.ici_mesh_shape, small.fdl.dcn_mesh_shape) == ([1, 1, 1], [1, 2, 1])
    assert (small.fdl.num_experts, small.fdl.num_groups) == (2, 2)
    assert (small.workload.smoke, small.workload.python, small.workload.jaxlib) == (
        True,
        "/venv/bin/python",
        "0.4.26",
    )
    assert small.workload.env["JAX_PLATFORMS"] == "cpu"
    assert small.workload.main_flags == {"jax_cpu_enable_gloo_collectives": True}
    assert resets == [
        "fdl_config paxml.tasks.lm.params.nvidia.Grok became cloudai_run_paxml.SmokeMoe",
        "fdl.percore_batch_size made small",
        "fdl.checkpoint_policy, use_expert_parallel, use_fp8, use_te_dpa left out",
        "XLA flags that jaxlib 0.4.26 lacks: xla_gpu_disable_async_collectives, "
        "xla_gpu_run_post_layout_collective_pipeliner, xla_gpu_use_memcpy_local_p2p",
    ]


def test_the_recipe_stays_as_it_is() -> None:
    recipe = paxml.grok1()
    before = tree.to_tree(recipe)
    smoke.cpu_smoke(recipe)
    assert tree.to_tree(recipe) == before


def test_the_stages_flags_still_differ() -> None:
    small, _ = smoke.cpu_smoke(paxml.grok1())
    settings = settings_of(small)
    profile, perf = flags_of(settings, "profile", 1), flags_of(settings, "perf", 1)
    assert profile["xla_gpu_enable_latency_hiding_scheduler"] is False
    assert perf["xla_gpu_enable_latency_hiding_scheduler"] is True
    assert "xla_gpu_all_reduce_combine_threshold_bytes" in perf.keys() - profile.keys()


def test_nemotron_stays_the_class_that_it_is() -> None:
    small, _ = smoke.cpu_smoke(paxml.nemotron())
    assert small.fdl_config == "cloudai_run_paxml.Nemotron4_340B"
    assert (small.fdl.num_heads, small.fdl.num_kv_heads) == (4, 2)


def test_pipelined_and_dense_classes_become_the_dense_one() -> None:
    for recipe in (paxml.gpt_nvidia5b(), paxml.gpt_126m(), paxml.paxml()):
        assert smoke.cpu_smoke(recipe)[0].fdl_config == "cloudai_run_paxml.SmokeDense"


def test_a_class_of_one_s_own_stays_with_its_knobs() -> None:
    recipe = paxml.paxml("my_package.Mine")
    recipe.fdl.my_window = 7
    small, _ = smoke.cpu_smoke(recipe)
    assert small.fdl_config == "my_package.Mine"
    assert (small.fdl.my_window, small.fdl.model_dims, small.fdl.use_fp8) == (7, 64, False)


def test_without_nsys_there_is_no_profile_stage() -> None:
    small, resets = smoke.cpu_smoke(paxml.grok1(), has_nsys=False)
    assert "pgle is off: there is no nsys here" in resets
    found = stages.stage_specs(small, nodes=1, ntasks_per_node=1, run_dir="/run", local=True)
    assert [spec.name for spec in found] == ["prepare", "perf"]


def test_a_container_is_left_out() -> None:
    recipe = paxml.grok1()
    recipe.workload.container_image = "image"
    small, resets = smoke.cpu_smoke(recipe)
    assert small.workload.container_image is None
    assert "workload.container_image image is left out" in resets


def test_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDAI_RUN_PAXML_PYTHON", "/venv/bin/python")
    assert smoke.cpu_smoke(paxml.grok1())[0].workload.python == "/venv/bin/python"
    recipe = paxml.grok1()
    recipe.workload.python = "/mine/python"
    assert smoke.cpu_smoke(recipe)[0].workload.python == "/mine/python"
    monkeypatch.delenv("CLOUDAI_RUN_PAXML_PYTHON")
    assert smoke.smoke_python().endswith("/.venv-paxml/bin/python")


def test_the_small_classes_have_the_knobs_of_those_that_they_stand_for() -> None:
    known = schema.experiments()
    dense = known["paxml.contrib.gpu.scripts_gpu.configs.Synthetic5B"]
    assert {"MAX_STEPS", "NUM_LAYERS", "USE_FP8", "ICI_MESH_SHAPE"} <= dense.knobs.keys()
    assert {"MAX_STEPS", "NUM_LAYERS", "USE_FP8", "ICI_MESH_SHAPE"} <= known[smoke.DENSE].knobs.keys()
    wanted = {"NUM_EXPERTS", "NUM_GROUPS", "NUM_KV_HEADS", "USE_EXPERT_PARALLEL", "USE_TE_DPA", "MAX_STEPS"}
    assert wanted <= known["paxml.tasks.lm.params.nvidia.Grok"].knobs.keys()
    assert wanted <= known[smoke.EXPERTS].knobs.keys()


def test_smoke_of_a_tree() -> None:
    small, resets = api.smoke(api.recipe_tree("grok1"), 2, 1)
    assert small["fdl_config"] == smoke.EXPERTS
    assert resets
    assert api.layout_of(small) == (2, 1)
    assert api.violations(small, 2, 1) == []
