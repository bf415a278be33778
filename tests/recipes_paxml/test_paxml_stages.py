"""The stages of a run: goldens for Grok-1 by nodes and kind of PGLE."""

from __future__ import annotations

from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.recipes import paxml
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import stages, tree
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"


def with_pgle(kind: str) -> run.Partial:
    recipe = paxml.grok1()
    if kind == "off":
        recipe.pgle.enabled = False
    elif kind == "auto":
        recipe.pgle.mode = "auto"
    elif kind == "given":
        recipe.pgle.profile = "/lustre/profiles/grok1.pbtxt"
    return recipe


def specs(recipe: run.Partial, nodes: int = 8, **more: object) -> tuple[stages.StageSpec, ...]:
    place = {"nodes": nodes, "ntasks_per_node": 8, "run_dir": "/run", **more}
    return stages.stage_specs(recipe, **place)  # pyright: ignore[reportArgumentType]


def shown(word: stages.Word) -> str:
    text = "".join(
        piece if isinstance(piece, str) else repr(piece)
        for piece in (word if isinstance(word, tuple) else (word,))
    )
    return text if "\n" not in text else f"{text.splitlines()[0]} ..."


def as_text(found: tuple[stages.StageSpec, ...]) -> str:
    lines = []
    for spec in found:
        lines.append(
            f"[{spec.name}] layout={spec.layout} container={spec.container_image} marker={spec.marker}"
        )
        lines.append(f"  nsys={spec.nsys} timeout_s={spec.timeout_s} measured={spec.measured}")
        lines += [f"  {shown(word)}" for word in spec.argv]
        lines += [f"  {name}:" for name in sorted(spec.env) if name == "XLA_FLAGS"]
        lines += [f"    {flag}" for flag in str(spec.env.get("XLA_FLAGS", "")).split()]
        lines += [f"  {name}={shown(word)}" for name, word in sorted(spec.env.items()) if name != "XLA_FLAGS"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("nodes", [1, 8, 256])
@pytest.mark.parametrize("kind", ["on", "off", "auto", "given"])
def test_grok1(kind: str, nodes: int) -> None:
    assert_golden(GOLDEN / f"stages-grok1-{kind}-{nodes}.txt", as_text(specs(with_pgle(kind), nodes)))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("on", ["prepare", "profile", "convert", "check", "perf"]),
        ("off", ["prepare", "perf"]),
        ("auto", ["prepare", "perf"]),
        ("given", ["prepare", "check", "perf"]),
    ],
)
def test_stages_by_kind_of_pgle(kind: str, names: list[str]) -> None:
    found = specs(with_pgle(kind))
    assert [spec.name for spec in found] == names
    perf = str(found[-1].env["XLA_FLAGS"])
    flag = "--xla_gpu_pgle_profile_file_or_directory_path"
    expected = {"on": "/run/pgle/profile.pbtxt", "given": "/lustre/profiles/grok1.pbtxt"}
    assert (f"{flag}={expected[kind]}" in perf) if kind in expected else flag not in perf
    assert ("JAX_ENABLE_PGLE" in found[-1].env) is (kind == "auto")


def test_nsys_wraps_rank_0_of_the_profile_stage_alone() -> None:
    found = {spec.name: spec.nsys for spec in specs(paxml.grok1())}
    assert found["profile"] == stages.NsysSpec(ranks=(0,), capture="whole", options={})
    assert [name for name, nsys in found.items() if nsys] == ["profile"]


def test_nsys_options_reach_the_stage_and_the_perf_stage_on_request() -> None:
    recipe = paxml.grok1()
    recipe.nsys.enabled, recipe.nsys.capture, recipe.nsys.ranks = True, "api", [3, 0]
    recipe.nsys.options["trace"] = "cuda,nvtx"
    found = {spec.name: spec for spec in specs(recipe)}
    spec = stages.NsysSpec(ranks=(3, 0), capture="api", options={"trace": "cuda,nvtx"})
    assert found["profile"].nsys == found["perf"].nsys == spec
    assert stages.Report("profile", 3) in found["convert"].argv
    assert found["convert"].argv[-2:] == ("--capture", "api")


def test_every_rank_must_print_its_end_in_both_stages() -> None:
    markers = {spec.name: spec.marker for spec in specs(paxml.grok1()) if spec.marker}
    assert markers == {"profile": "E2E time: Elapsed time for", "perf": "E2E time: Elapsed time for"}


def test_ranks_meet_without_mpi() -> None:
    argv = specs(paxml.grok1())[-1].argv
    assert argv[-4:] == (
        "--multiprocess_gpu",
        ("--server_addr=", stages.HeadNode(), ":job-", stages.Variable("SLURM_JOB_ID")),
        ("--num_hosts=", stages.Variable("SLURM_NTASKS")),
        ("--host_idx=", stages.Variable("SLURM_PROCID")),
    )


def test_ranks_on_this_machine_meet_at_a_port_of_the_run() -> None:
    recipe = paxml.gpt_126m()
    recipe.pgle.enabled = False
    first, second = (
        specs(recipe, 1, local=True, run_dir=folder)[-1].argv[-3] for folder in ("/run/a", "/run/b")
    )
    assert str(first).startswith("--server_addr=127.0.0.1:job-")
    assert first != second
    alone = specs(recipe, 1, ntasks_per_node=1, gpus_per_node=8, local=True)[-1].argv
    assert not any("server_addr" in str(word) or "multiprocess" in str(word) for word in alone)


def test_a_container_and_a_time_limit_reach_the_stages() -> None:
    recipe = paxml.grok1()
    recipe.workload.container_image, recipe.workload.timeout_s = "nvcr.io/nvidia/jax:24.04-paxml-py3", 600
    found = specs(recipe)
    assert {spec.container_image for spec in found} == {"nvcr.io/nvidia/jax:24.04-paxml-py3"}
    assert {spec.name: spec.timeout_s for spec in found if spec.timeout_s} == {"profile": 600, "perf": 600}


def test_flags_of_paxml_main_and_environment() -> None:
    recipe = paxml.grok1()
    recipe.workload.main_flags = {"tfds_data_dir": "/data", "enable_checkpoint_saving": True}
    recipe.workload.env["NCCL_DEBUG"] = "INFO"
    perf = specs(recipe)[-1]
    assert {"--tfds_data_dir=/data", "--enable_checkpoint_saving=true"} <= set(perf.argv)
    assert perf.env["NCCL_DEBUG"] == "INFO"


def test_own_classes_are_carried_and_others_are_not() -> None:
    def carried(recipe: run.Partial) -> set[stages.Word]:
        nodes = recipe.workload.num_nodes
        return {
            word for word in specs(recipe, nodes)[0].argv if isinstance(word, str) and word.endswith(".py")
        }

    assert carried(paxml.nemotron()) == {"cloudai_run_rank.py", "cloudai_run_pgle.py", "cloudai_run_paxml.py"}
    assert carried(paxml.grok1()) == {"cloudai_run_rank.py", "cloudai_run_pgle.py"}
    assert carried(paxml.grok1_h100_bf16()) == {"cloudai_run_rank.py"}


def test_a_tree_gives_the_same_stages() -> None:
    recipe = paxml.nemotron_15b()
    assert specs(tree.to_tree(recipe)) == specs(recipe)  # pyright: ignore[reportArgumentType]


def test_a_run_folder_with_white_space_cannot_hold_the_profile() -> None:
    with pytest.raises(
        RecipeError, match=r"XLA_FLAGS cannot carry '/my runs/pgle/profile\.pbtxt': XLA cuts it"
    ):
        specs(paxml.grok1(), run_dir="/my runs")
    assert specs(paxml.grok1_h100_bf16(), run_dir="/my runs")


def test_words_with_markers_need_an_executor() -> None:
    perf = specs(paxml.grok1())[-1]
    assert perf.plain("--a=1") == "--a=1"
    assert perf.plain(("--a=", "1")) == "--a=1"
    with pytest.raises(RecipeError, match="stage perf needs an executor: "):
        perf.plain(perf.argv[-1])
