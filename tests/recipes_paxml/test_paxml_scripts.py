"""The scripts that Slurm gets for Grok-1, whole, by nodes and kind of PGLE."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.executors.placement import place_stages
from cloudai_run.executors.plan import Allocation, Container, Directives, Plan
from cloudai_run.executors.render import render_sbatch
from cloudai_run.executors.tasks import HEAD_NODE_SETUP, uses_head_node
from cloudai_run.recipes import paxml
from cloudai_run.recipes.paxml import stages
from cloudai_run.stages_paxml import paxml_stages
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("on", "off", "auto", "given")
NODES = (1, 8, 256)


def recipe_with(kind: str) -> run.Partial:
    recipe = paxml.grok1()
    recipe.workload.container_image = "nvcr.io#nvidia/paxml:24.08"
    recipe.pgle.enabled = kind != "off"
    recipe.pgle.mode = "auto" if kind == "auto" else "nsys"
    recipe.pgle.profile = "/lustre/profiles/grok1.pbtxt" if kind == "given" else None
    return recipe


@pytest.fixture
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that a run carries are tested by what they do; here they would fill the script."""
    whole = stages.carried_files
    monkeypatch.setattr(stages, "carried_files", lambda settings: dict.fromkeys(whole(settings), "...\n"))


def script(kind: str, nodes: int) -> str:
    allocation = Allocation(
        nodes=nodes, ntasks_per_node=8, gpus_per_node=8, run_dir="/lustre/runs/grok1", job_name="grok1"
    )
    made = paxml_stages(recipe_with(kind), allocation)
    placed, containers = place_stages(made, None, {}, Container(image="unused"))
    directives = Directives(
        nodes=nodes, ntasks_per_node=8, gpus_per_node=8, account="a", partition="p", time="60"
    )
    plan = Plan(
        job_name="grok1",
        run_dir="/lustre/runs/grok1",
        stages=placed,
        containers=containers,
        directives=directives,
        setup=HEAD_NODE_SETUP if uses_head_node(placed) else "",
    )
    return render_sbatch(plan)


@pytest.mark.usefixtures("short_files")
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("kind", KINDS)
def test_script(kind: str, nodes: int) -> None:
    assert_golden(GOLDEN / f"script-grok1-{kind}-{nodes}.sh", script(kind, nodes))


@pytest.mark.parametrize("kind", KINDS)
def test_bash_reads_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "sbatch.sh"
    path.write_text(script(kind, 8))
    subprocess.run(["bash", "-n", str(path)], check=True)
    subprocess.run(["shellcheck", str(path)], check=True)


def test_256_nodes_differ_from_8_in_numbers_only() -> None:
    small, large = (re.sub(r"\d+", "N", script("on", nodes)) for nodes in (8, 256))
    assert small == large
