"""How a script loads, names, reuses and removes containers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from cloudai_run.executors.plan import (
    Container,
    Layout,
)
from cloudai_run.executors.render import render_sbatch
from tests.executors_render.harness import (
    plan_of,
    run_plan,
    run_script,
    stage,
)
from tests.executors_render.plans import RUN_DIR, SBATCH_PLANS, containers


def test_container_is_loaded_once_and_named_after(tmp_path: Path) -> None:
    outcome = run_plan(containers(str(tmp_path / "run")), tmp_path)
    named = "nemo_4711_0"
    assert outcome.code == 0
    images = [
        (s["options"].get("container-image"), s["options"].get("container-name")) for s in outcome.sruns
    ]
    assert images == [
        ("nvcr.io#nvidia/pytorch:24.09-py3", None),
        ("/images/nemo 25.04.sqsh", named),
        *[(None, named)] * 3,
        (None, None),
    ]
    assert outcome.sruns[1]["command"] == ["true"]
    assert outcome.sruns[-1]["command"][-1] == named
    assert [s["options"].get("container-save") for s in outcome.sruns].count("/scratch/nemo-used.sqsh") == 1
    assert {s["options"]["reservation"] for s in outcome.sruns} == {"maintenance"}


def test_each_attempt_has_a_container_of_its_own(tmp_path: Path) -> None:
    outcome = run_plan(containers(str(tmp_path / "run")), tmp_path, attempt=2)
    assert {s["options"].get("container-name") for s in outcome.sruns} == {None, "nemo_4711_2"}


def test_value_of_the_user_wins_over_the_images(tmp_path: Path) -> None:
    image = {
        "FAKE_IMAGE_ENV": json.dumps({"XLA_FLAGS": "image", "NCCL_DEBUG": "image", "IMAGE_ONLY": "image"})
    }
    outcome = run_plan(containers(str(tmp_path / "run")), tmp_path, env=image)
    for program in (p for p in outcome.programs if p["program"] == "nemo"):
        assert program["env"]["XLA_FLAGS"] == "--xla_a=1 --xla_b=2"
        assert program["env"]["IMAGE_ONLY"] == "image"
    assert {p["env"]["NCCL_DEBUG"] for p in outcome.programs} == {"INFO", "image"}
    listed = [s["options"].get("container-env") for s in outcome.sruns]
    assert listed == [*["XLA_FLAGS"] * 3, "NCCL_DEBUG,XLA_FLAGS", "XLA_FLAGS", None]


def test_containers_are_removed_after_a_failure_too_and_do_not_change_the_exit_code(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        stage("one", container="nemo", layout=Layout.ONCE),
        stage("two", "--exit-on", "0", "9", container="nemo"),
        containers={"nemo": Container(image="/nemo.sqsh")},
    )
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == 9
    assert outcome.sruns[-1]["command"][:2] == ["bash", "-c"]
    removed = sorted((tmp_path / "enroot.log").read_text().splitlines())
    assert removed == ["0 remove --force pyxis_nemo_4711_0", "1 remove --force pyxis_nemo_4711_0"]
    kept = run_plan(dataclasses.replace(plan, remove_containers=False), tmp_path / "kept")
    assert (kept.code, len(kept.sruns)) == (9, 3)


def test_reason_says_what_pyxis_said(tmp_path: Path) -> None:
    script = render_sbatch(containers(str(tmp_path / "run"))).replace("run_stage load-nemo", ": run_stage")
    outcome = run_script(script, tmp_path, run_dir=tmp_path / "run")
    assert outcome.reason("first") == (
        'node1: task 0: Exited with exit code 1: pyxis: a container with name "nemo_4711_0" does not exist'
    )


def test_container_of_a_job_scope_is_removed_under_its_name_too(tmp_path: Path) -> None:
    run_plan(containers(str(tmp_path / "run")), tmp_path, attempt=1)
    removed = (tmp_path / "enroot.log").read_text().splitlines()
    assert sorted(removed) == sorted(
        f"{node} remove --force {name}"
        for node in (0, 1)
        for name in ("pyxis_nemo_4711_1", "pyxis_4711_nemo_4711_1")
    )


def test_nothing_of_containers_without_one() -> None:
    for name in ("minimal", "quoting", "layouts", "nsys", "checks", "directives"):
        assert "container" not in render_sbatch(SBATCH_PLANS[name](RUN_DIR))
