"""Real PAXML on a CPU, through the script that runs a recipe here."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.recipes import paxml
from cloudai_run.recipes.paxml import smoke
from tests.recipes_paxml import paxml_env
from tests.recipes_paxml.local_run import NSYS, Done, run_here

pytestmark = pytest.mark.paxml

STEPS = 6


def small(name: str, ranks: int = 1, pgle: bool = False) -> run.Partial:
    recipe = getattr(paxml, name)()
    recipe.fdl.max_steps = STEPS
    recipe.pgle.enabled = pgle
    return smoke.cpu_smoke(recipe, ranks_per_node=ranks, python=paxml_env.python())[0]


def flags_printed(done: Done, stage: str) -> list[set[str]]:
    return [
        set(found.split()) for found in re.findall(r"cloudai-run: rank .*XLA_FLAGS=(.*)", done.log(stage))
    ]


def assert_trained(done: Done, stage: str, ranks: int = 1) -> None:
    text = done.log(stage)
    assert len(re.findall(r"train_step\(\) took [\d.]+ seconds", text)) == STEPS * ranks, text[-3000:]
    losses = {
        int(step): float(loss)
        for step, loss in re.findall(r"step_i: (\d+), training loss: ([\d.e+-]+)", text)
    }
    assert STEPS in losses
    # The learning rate still warms up: the loss falls in the fourth digit, within what bfloat16 rounds.
    assert losses[STEPS] == pytest.approx(losses[min(losses)], rel=1e-2)
    assert len(re.findall("E2E time: Elapsed time for", text)) == ranks


def test_grok_in_both_stages_with_jax_s_own_converter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(NSYS, tmp_path / "bin" / "nsys")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    done = run_here(
        tmp_path, small("grok1", pgle=True), ranks=1, CLOUDAI_RUN_NSYS_LOG=str(tmp_path / "nsys.log")
    )
    assert done.code == 0, done.output + done.log("profile")[-3000:] + done.log("convert")
    for stage in ("profile", "perf"):
        assert_trained(done, stage)
    (profile,), (perf,) = flags_printed(done, "profile"), flags_printed(done, "perf")
    assert "--xla_gpu_enable_latency_hiding_scheduler=false" in profile - perf
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in perf - profile
    path = done.run_dir / "pgle" / "profile.pbtxt"
    assert f"--xla_gpu_pgle_profile_file_or_directory_path={path}" in perf
    assert 'costs { name: "all-gather-start.1" cost_us: 9.0 }' in path.read_text()
    assert "******Starting stats command******" in (done.run_dir / "pgle" / "convert.log").read_text()
    assert len((tmp_path / "nsys.log").read_text().splitlines()) == 1


def test_two_ranks_meet_without_mpi(tmp_path: Path) -> None:
    done = run_here(tmp_path, small("gpt", ranks=2), ranks=2)
    assert done.code == 0, done.output + done.log("perf")[-3000:]
    assert_trained(done, "perf", ranks=2)
    flags = flags_printed(done, "perf")
    assert len(flags) == 2
    assert flags[0] == flags[1]
    assert {"JAX process: 0 / 2", "JAX process: 1 / 2"} <= set(
        re.findall(r"JAX process: \d / \d", done.log("perf"))
    )


def test_nemotron_s_own_class(tmp_path: Path) -> None:
    done = run_here(tmp_path, small("nemotron"), ranks=1)
    assert done.code == 0, done.output + done.log("perf")[-3000:]
    assert_trained(done, "perf")


def test_an_unknown_flag_is_recognised_in_the_log(tmp_path: Path) -> None:
    from cloudai_run.recipes.paxml.advice import explain_unknown_flags

    recipe = small("gpt")
    recipe.xla.common.extra = {**recipe.xla.common.extra, "xla_gpu_no_such_flag": True}
    done = run_here(tmp_path, recipe, ranks=1)
    assert done.code != 0
    explained = [
        text for line in done.log("perf").splitlines() if (text := explain_unknown_flags(line, "0.4.26"))
    ]
    assert explained == [
        "the container's jaxlib does not know xla_gpu_no_such_flag\n"
        "  no version that was measured has been tried with it: is the name right?"
    ]
