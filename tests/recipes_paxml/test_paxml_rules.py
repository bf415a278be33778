"""What is refused on the login node, with the numbers."""

from __future__ import annotations

import nemo_run as run
import pytest

from cloudai_run.metrics import window
from cloudai_run.recipes import paxml
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import api, rules, stages
from cloudai_run.recipes.paxml.settings import Place, placed, settings_of


def broken(
    recipe: run.Partial, nodes: int = 8, ntasks: int = 8, gpus: int | None = 8, local: bool = False
) -> list[str]:
    place = Place(nodes, ntasks, gpus, local)
    return [
        f"{found.rule}: {found.message}" for found in rules.check(placed(settings_of(recipe), place), place)
    ]


@pytest.mark.parametrize("nodes", [1, 8, 32, 256])
def test_grok1_fits_any_number_of_nodes(nodes: int) -> None:
    assert broken(paxml.grok1(), nodes) == []


def test_the_meshes_must_be_the_devices() -> None:
    recipe = paxml.grok1()
    recipe.fdl.dcn_mesh_shape = [1, 4, 1, 1]
    assert broken(recipe) == [
        "mesh: ici_mesh_shape [1, 1, 8, 1] x dcn_mesh_shape [1, 4, 1, 1] is 32 devices, and the run has 64 "
        "(8 nodes x 8)",
    ]


def test_a_mesh_over_nodes_has_one_part_a_node() -> None:
    recipe = paxml.grok1()
    recipe.fdl.ici_mesh_shape, recipe.fdl.dcn_mesh_shape = [1, 2, 8, 1], [1, 4, 1, 1]
    assert broken(recipe) == [
        "mesh: dcn_mesh_shape [1, 4, 1, 1] is 4 parts, and JAX makes one a node: there are 8; a mesh of ones leaves "
        "the nodes to ici_mesh_shape",
    ]
    recipe.fdl.ici_mesh_shape, recipe.fdl.dcn_mesh_shape = [1, 8, 8, 1], [1, 1, 1, 1]
    assert broken(recipe) == []


def test_the_meshes_have_the_same_axes() -> None:
    recipe = paxml.grok1()
    recipe.fdl.dcn_mesh_shape = [1, 8, 1]
    assert broken(recipe) == [
        "mesh: ici_mesh_shape [1, 1, 8, 1] has 4 axes and dcn_mesh_shape [1, 8, 1] has 3: they must have the same"
    ]


def test_experts_fit_their_axis_and_groups_the_devices() -> None:
    recipe = paxml.grok1()
    recipe.fdl.num_experts = 12
    assert broken(recipe) == [
        "experts: num_experts=12 cannot be spread over an expert axis of 8 (axis 2 of the meshes)"
    ]
    recipe = paxml.grok1()
    recipe.fdl.num_groups = 96
    assert broken(recipe) == [
        "experts: num_groups=96 cannot be spread over 64 devices (all axes of the meshes but the last)",
        "experts: the global batch of 524288 tokens cannot be cut into num_groups=96",
    ]


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (0.0625, "0.0625 sequences a process with 1 device"),
        (1.5, "1.5 sequences a process with 1 device"),
        (0.0, "0 sequences a process with 1 device"),
    ],
)
def test_a_process_loads_whole_sequences(batch: float, said: str) -> None:
    recipe = paxml.gpt_175b()
    recipe.fdl.percore_batch_size = batch
    assert broken(recipe, 32) == [
        f"batch: percore_batch_size={batch:g} is {said}: it must be a whole number of at least 1"
    ]


def test_one_local_process_has_all_the_devices() -> None:
    recipe = paxml.gpt_126m()
    recipe.fdl.percore_batch_size = 0.5
    assert broken(recipe, 1, 1, 8, local=True) == []


def test_microbatches_cut_the_global_batch() -> None:
    recipe = paxml.gpt_nvidia5b()
    recipe.fdl.microbatch_size = 5
    assert broken(recipe, 2) == [
        "batch: the global batch of 16 cannot be cut into microbatches of microbatch_size=5"
    ]
    recipe = paxml.gpt_nvidia5b()
    recipe.fdl.num_microbatches = 3
    assert broken(recipe, 2) == ["batch: the global batch of 16 cannot be cut into num_microbatches=3"]


def test_pipeline_stages_are_an_axis_and_share_the_layers() -> None:
    recipe = paxml.gpt_nvidia5b()
    recipe.fdl.num_stages = 5
    assert broken(recipe, 2) == [
        "pipeline: num_stages=5, and the first axis of the meshes is 4: they must be the same",
        "pipeline: num_layers=24 cannot be cut into 5 pipeline stages of the same size",
    ]


def test_heads_fill_the_model() -> None:
    recipe = paxml.nemotron_15b()
    recipe.fdl.num_heads = 50
    assert broken(recipe) == [
        "shapes: num_heads=50 x dims_per_head=128 is 6400, and model_dims=6144",
        "shapes: num_heads=50 cannot be shared out to num_kv_heads=8",
    ]


def test_jax_gives_a_slurm_task_one_gpu() -> None:
    assert broken(paxml.grok1(), 8, 1, 8) == [
        "one_device_a_task: JAX gives each Slurm task one GPU: 8 GPUs a node need ntasks_per_node=8, and it is 1"
    ]


def test_knobs_have_types() -> None:
    recipe = paxml.grok1()
    recipe.fdl.max_steps, recipe.fdl.use_fp8, recipe.fdl.dcn_mesh_shape = "30", 1, "[1, 8, 1, 1]"
    assert broken(recipe) == [
        "knobs: fdl.dcn_mesh_shape is '[1, 8, 1, 1]', and the knob takes list[int] | None",
        "knobs: fdl.max_steps is '30', and the knob takes int",
        "knobs: fdl.use_fp8 is 1, and the knob takes bool",
    ]


def test_knobs_follow_the_class_that_is_run() -> None:
    recipe = paxml.grok1()
    recipe.fdl_config = "paxml.tasks.lm.params.nvidia.NVIDIA5B"
    assert broken(recipe)[0].startswith("knobs: paxml.tasks.lm.params.nvidia.NVIDIA5B ignores fdl.max_steps")


def test_nsys_and_jax_s_own_profiler_exclude_each_other() -> None:
    recipe = paxml.grok1()
    recipe.pgle.mode = "auto"
    assert broken(recipe) == []
    recipe.nsys.enabled = True
    assert broken(recipe) == [
        "profiling: nsys.enabled with pgle.mode=auto: both need CUPTI, which has one client a process; use "
        "pgle.mode=nsys, or profile another run"
    ]


def test_a_given_profile_is_absolute_and_not_for_auto() -> None:
    recipe = paxml.grok1()
    recipe.pgle.profile = "x.pbtxt"
    assert broken(recipe) == [
        "profiling: pgle.profile is 'x.pbtxt': it must be an absolute path, the same on every node"
    ]
    recipe.pgle.profile, recipe.pgle.mode = "/x.pbtxt", "auto"
    assert broken(recipe) == [
        "profiling: pgle.profile with pgle.mode=auto: JAX makes its own profile there; leave one of them out"
    ]


def test_xla_flags_come_from_their_node_only() -> None:
    recipe = paxml.grok1()
    recipe.workload.env["XLA_FLAGS"] = "--xla_a=1"
    assert broken(recipe) == [
        "xla_flags: workload.env sets XLA_FLAGS, which the xla node writes: xla.common, xla.profile and xla.perf"
    ]


def test_an_error_is_one_message_of_at_most_six_lines() -> None:
    recipe = paxml.grok1()
    recipe.workload.jaxlib = "0.4.26"
    recipe.fdl.num_groups, recipe.fdl.num_experts, recipe.fdl.percore_batch_size = 96, 12, 1.5
    with pytest.raises(RecipeError) as error:
        stages.stage_specs(recipe, nodes=8, ntasks_per_node=8, run_dir="/run")
    lines = str(error.value).split("\n")
    assert lines[0].startswith("grok1 cannot run so: num_experts=12")
    assert len(lines) == 6
    assert lines[-1] == "  and 2 more lines"


@pytest.mark.parametrize(
    ("steps", "notes"),
    [
        (20, []),
        (12, []),
        (
            8,
            ["max_steps=8 leaves 7 step times after the warm-up: from 12 on there are enough for statistics"],
        ),
        (
            0,
            ["max_steps=0 leaves 0 step times after the warm-up: from 12 on there are enough for statistics"],
        ),
        (100, ["PAXML prints the time of the first 20 of max_steps=100 steps only"]),
    ],
)
def test_notes_on_the_number_of_step_times(steps: int, notes: list[str]) -> None:
    tree = api.recipe_tree("grok1")
    fdl = tree["fdl"]
    assert isinstance(fdl, dict)
    assert api.notes({**tree, "fdl": {**fdl, "max_steps": steps}}) == notes


@pytest.mark.parametrize("steps", range(30))
def test_the_notes_count_as_the_report_does(steps: int) -> None:
    timed = min(steps, rules.TIMED_STEPS)
    assert rules.samples_of(steps) == timed - window.warm_up_steps("paxml", timed)
    assert rules.MIN_SAMPLES == window.ENOUGH_STEPS


def test_a_class_without_an_end_is_noted() -> None:
    tree = api.recipe_tree("paxml", fdl_config="paxml.tasks.lm.params.nvidia.NVIDIA5B")
    assert api.notes(tree) == [
        "paxml.tasks.lm.params.nvidia.NVIDIA5B has no MAX_STEPS: the run ends when it is stopped"
    ]
