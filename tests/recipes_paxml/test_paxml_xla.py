"""XLA flags: acceptance by jaxlib, thresholds, rendering, and what an error says."""

from __future__ import annotations

from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.recipes import paxml
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import advice, fiddlers, rules, stages, xla
from cloudai_run.recipes.paxml.settings import flags_of, settings_of
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
DEFAULT_SETS = ("gpt", "grok1", "nemotron")


def all_flags(recipe: str) -> dict[str, xla.Value]:
    settings = settings_of(getattr(paxml, recipe)())
    return {**flags_of(settings, "profile", 64), **flags_of(settings, "perf", 64)}


@pytest.mark.parametrize("recipe", DEFAULT_SETS)
def test_each_set_against_each_jaxlib(recipe: str) -> None:
    lines = []
    for version in xla.table().versions:
        bad = [name for name, value in sorted(all_flags(recipe).items()) if xla.problem(name, value, version)]
        lines.append(f"{version}: {', '.join(bad) or 'all accepted'}\n")
    assert_golden(GOLDEN / f"xla-{recipe}.txt", "".join(lines))


@pytest.mark.parametrize("recipe", DEFAULT_SETS)
@pytest.mark.parametrize("version", xla.table().versions)
def test_modern_xla_fits_every_jaxlib(recipe: str, version: str) -> None:
    fitted = settings_of(fiddlers.modern_xla(getattr(paxml, recipe)(), version))
    for stage in ("profile", "perf"):
        flags = flags_of(fitted, stage, 64)
        assert {name: xla.problem(name, value, version) for name, value in flags.items()} == dict.fromkeys(
            flags
        )
        assert flags  # nothing was thrown out that did not have to be
    assert fitted.workload.jaxlib == version


def specs(recipe: run.Partial) -> tuple[stages.StageSpec, ...]:
    return stages.stage_specs(recipe, nodes=8, ntasks_per_node=8, run_dir="/run")


def test_grok1_is_refused_on_jaxlib_0_10_2_with_what_to_set() -> None:
    recipe = paxml.grok1()
    recipe.workload.jaxlib = "0.10.2"
    with pytest.raises(RecipeError) as error:
        specs(recipe)
    assert str(error.value) == (
        "grok1 cannot run so: jaxlib 0.10.2 rejects 3 XLA flags; xla.modern=True sets what it takes\n"
        "  xla_gpu_enable_triton_softmax_fusion: nothing takes its place, drop it\n"
        "  xla_gpu_graph_level: set xla_gpu_enable_command_buffer (an empty value turns CUDA graphs off, "
        "as level 0 did)\n"
        "  xla_gpu_run_post_layout_collective_pipeliner: nothing takes its place, drop it"
    )
    fitted = specs(fiddlers.modern_xla(recipe))
    assert "--xla_gpu_enable_command_buffer= " in str(fitted[-1].env["XLA_FLAGS"])
    assert recipe.xla.common.xla_gpu_graph_level == 0, "the fiddler leaves its argument alone"


def test_xla_modern_does_the_same_as_the_fiddler() -> None:
    for version in xla.table().versions:
        recipe = paxml.grok1()
        recipe.workload.jaxlib, recipe.xla.modern = version, True
        assert specs(recipe) == specs(fiddlers.modern_xla(paxml.grok1(), version))
    recipe = paxml.grok1()
    recipe.xla.modern = True
    assert specs(recipe) == specs(fiddlers.modern_xla(paxml.grok1()))


def test_from_0_11_2_pipelining_has_other_names_and_values() -> None:
    assert xla.problem("xla_gpu_pipeline_all_gather", True, "0.11.2") == (
        "xla_gpu_pipeline_all_gather=true: the flag takes on"
    )
    assert xla.problem("xla_gpu_pipeline_all_gather", "on", "0.11.0") == (
        "xla_gpu_pipeline_all_gather: set xla_gpu_enable_pipelined_all_gather=true before jaxlib 0.11.2"
    )
    assert xla.problem("xla_gpu_pipeline_all_gather", "on", "0.12.0") is None


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("0.4.31", "accepted"),
        ("0.4.35", "rejected"),
        ("0.4.33", "unknown"),  # the versions around it disagree
        ("0.4.36", "rejected"),  # both around it reject
        ("0.99", "rejected"),  # a removed flag stays removed
        ("0.4.1", "unknown"),  # before the first that was measured
        ("unknown", "unknown"),
    ],
)
def test_versions_between_measured_ones(version: str, status: str) -> None:
    assert xla.status("xla_gpu_run_post_layout_collective_pipeliner", False, version) == status


def test_a_flag_that_was_never_measured_is_unknown() -> None:
    assert xla.status("xla_gpu_brand_new", True, "0.4.31") == "unknown"


def test_modern_xla_sets_the_names_of_the_newest() -> None:
    old, new = (fiddlers.modern_xla(paxml.grok1(), version).xla.common for version in ("0.11.0", "0.11.2"))
    assert old.xla_gpu_enable_pipelined_all_gather is True
    assert old.xla_gpu_pipeline_all_gather is None
    assert new.xla_gpu_enable_pipelined_all_gather is None
    assert new.xla_gpu_pipeline_all_gather == "on"


def test_the_version_is_checked() -> None:
    with pytest.raises(
        RecipeError, match=r"^workload\.jaxlib is 'new'\n  it takes the version in the container"
    ):
        xla.check_version("new")


def test_thresholds_follow_from_the_gpus() -> None:
    assert xla.with_thresholds({}, 301989888, 8) == {
        "xla_gpu_all_gather_combine_threshold_bytes": 301989888,
        "xla_gpu_all_reduce_combine_threshold_bytes": 301989888,
        "xla_gpu_reduce_scatter_combine_threshold_bytes": 37748736,
    }
    own = {"xla_gpu_all_reduce_combine_threshold_bytes": 1}
    assert xla.with_thresholds(own, 8, 2)["xla_gpu_all_reduce_combine_threshold_bytes"] == 1
    assert xla.with_thresholds({"xla_gpu_graph_level": 0}, None, 8) == {"xla_gpu_graph_level": 0}


def test_nemotron_s_thresholds_at_64_nodes() -> None:
    flags = flags_of(settings_of(paxml.nemotron()), "perf", 512)
    assert flags["xla_gpu_all_gather_combine_threshold_bytes"] == 3221225472
    assert flags["xla_gpu_reduce_scatter_combine_threshold_bytes"] == 6291456


def test_rendering_is_sorted_and_typed() -> None:
    assert xla.render({"xla_b": True, "xla_a": 0, "xla_c": ""}) == "--xla_a=0 --xla_b=true --xla_c="


@pytest.mark.parametrize("value", ["a b", "a\tb", "it's", 'say "x"'])
def test_values_that_xla_would_cut_are_refused(value: str) -> None:
    with pytest.raises(RecipeError, match="XLA_FLAGS cannot carry"):
        xla.text_of(value)


def test_extra_flags_reach_the_run_and_must_be_xla_s() -> None:
    recipe = paxml.grok1()
    recipe.xla.perf.extra = {"xla_gpu_brand_new": 3}
    assert "--xla_gpu_brand_new=3" in str(specs(recipe)[-1].env["XLA_FLAGS"])
    recipe.xla.perf.extra = {"gpu_graph_level": 3}
    with pytest.raises(RecipeError) as error:
        specs(recipe)
    assert str(error.value) == (
        "xla.perf: 'gpu_graph_level' is no name of an XLA flag (xla_...)\n"
        "  did you mean xla_gpu_graph_level or xla_gpu_cuda_graph_level?"
    )


def test_the_profile_is_no_flag_to_set() -> None:
    recipe = paxml.grok1()
    recipe.xla.perf.xla_gpu_pgle_profile_file_or_directory_path = "/x"
    with pytest.raises(
        RecipeError, match=r"xla\.perf sets xla_gpu_pgle_profile_file_or_directory_path: set pgle\.profile"
    ):
        specs(recipe)


def test_a_misspelt_flag_is_refused_by_the_node() -> None:
    recipe = paxml.grok1()
    with pytest.raises(AttributeError, match="No parameter named 'xla_gpu_graph_levl'"):
        recipe.xla.perf.xla_gpu_graph_levl = 0


OLD = (
    "2026-11-30 23:01:05.338968: F external/xla/xla/parse_flags_from_env.cc:225] Unknown flags in XLA_FLAGS: "
    "--xla_gpu_graph_level=0  Perhaps you meant to specify these on the TF_XLA_FLAGS envvar?"
)


def test_an_unknown_flag_in_a_log_is_explained() -> None:
    assert advice.explain_unknown_flags(OLD, "0.4.31") == (
        "the container's jaxlib does not know xla_gpu_graph_level, which jaxlib 0.4.31 does: the container has another "
        "version than workload.jaxlib says\n"
        "  it is 0.7.2 or later by that; name it in workload.jaxlib, and the login node says what to set"
    )
    both = "Unknown flag(s) in XLA_FLAGS: --xla_gpu_use_memcpy_local_p2p=false --xla_gpu_disable_async_collectives=X"
    assert "it is 0.4.26 or earlier by that" in str(advice.explain_unknown_flags(both, "unknown"))


def test_flags_that_nobody_measured_are_explained_as_such() -> None:
    text = advice.explain_unknown_flags("Unknown flag in XLA_FLAGS: --xla_gpu_no_such=1", "0.4.31")
    assert text == (
        "the container's jaxlib does not know xla_gpu_no_such\n"
        "  no version that was measured has been tried with it: is the name right?"
    )
    assert advice.explain_unknown_flags("all is well", "0.4.31") is None


def test_flags_valid_in_the_old_form_of_the_line_are_not_taken_for_unknown_ones() -> None:
    line = "Unknown flag in XLA_FLAGS: --xla_gpu_no_such=1  --xla_gpu_graph_level --xla_dump_to"
    assert advice.unknown_flags(line) == ["xla_gpu_no_such"]


def test_no_flag_of_a_recipe_is_outside_the_table() -> None:
    for name in DEFAULT_SETS:
        assert all_flags(name).keys() <= xla.table().flags.keys()
        assert rules.notes(settings_of(getattr(paxml, name)())) == []
