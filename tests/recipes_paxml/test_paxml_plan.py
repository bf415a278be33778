"""From a recipe to the executors' plan, and through a whole run of it with a stand-in for PAXML.

The stand-in is a package `paxml` that prints what PAXML prints and leaves its XLA_FLAGS in a file; the converter is
one that writes what a test wants. nsys is the stand-in of tests/slurm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.executors.nsys import Nsys, NsysCapture, report_path
from cloudai_run.executors.plan import Allocation, Directives, Gate, Layout, Mpi, NodeVar, Plan
from cloudai_run.executors.render_local import render_local
from cloudai_run.recipes import paxml
from cloudai_run.recipes.paxml import smoke
from cloudai_run.stages_paxml import paxml_stages

NSYS = Path(__file__).parents[1] / "slurm" / "bin" / "nsys"
END = "[PAX STATUS]: E2E time: Elapsed time for <_main>: 1.00 seconds"

PAXML = f"""\
import os, sys
flags = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
rank = os.environ["SLURM_PROCID"]
stage = os.path.basename(flags["job_log_dir"])
with open(os.path.join(os.environ["PROBE"], f"{{stage}}-{{rank}}"), "w") as file:
    file.write(os.environ["XLA_FLAGS"])
print("[PAX STATUS]: train_step() took 0.100000 seconds.", file=sys.stderr)
if os.environ.get("SILENT") != f"{{stage}}-{{rank}}":
    print("{END}", file=sys.stderr)
sys.exit(int(os.environ.get("EXIT", "0")))
"""
CONVERTER = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--profile_path")
parser.add_argument("--pgle_output_path")
parser.add_argument("--post_process", action="store_true")
with open(parser.parse_args().pgle_output_path, "w") as file:
    file.write({content!r})
"""
GOOD = 'costs { name: "all-gather-start.1" cost_us: 9000.0 }\n'


@dataclass(frozen=True)
class Done:
    """What a run left."""

    code: int
    output: str
    run_dir: Path
    probe: Path

    @property
    def stages_run(self) -> list[str]:
        return sorted(path.name for path in self.probe.iterdir())

    def log(self, stage: str) -> str:
        return "".join(path.read_text() for path in sorted(self.run_dir.glob(f"logs/{stage}/attempt-0/node-*.log")))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stand-ins, on PATH and PYTHONPATH."""
    for folder in ("bin", "lib/paxml", "probe", "run"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(NSYS, tmp_path / "bin" / "nsys")
    (tmp_path / "lib" / "paxml" / "__init__.py").write_text("")
    (tmp_path / "lib" / "paxml" / "main.py").write_text(PAXML)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    monkeypatch.setenv("PROBE", str(tmp_path / "probe"))
    return tmp_path


def grok(place: Path, ranks: int = 2, converted: str | None = GOOD) -> run.Partial:
    recipe, _ = smoke.cpu_smoke(paxml.grok1(), ranks_per_node=ranks, python=sys.executable)
    converter = place / "converter.py"
    converter.write_text("" if converted is None else CONVERTER.format(content=converted))
    recipe.pgle.converter = str(converter)
    return recipe


def run_here(place: Path, recipe: run.Partial, ranks: int = 2, **env: str) -> Done:
    run_dir = place / "run"
    allocation = Allocation(
        nodes=1, ntasks_per_node=ranks, gpus_per_node=None, run_dir=str(run_dir), job_name="grok", local=True
    )
    stages = paxml_stages(recipe, allocation)
    directives = Directives(nodes=1, ntasks_per_node=ranks)
    script = place / "run.sh"
    script.write_text(render_local(Plan(job_name="grok", run_dir=str(run_dir), stages=stages, directives=directives)))
    done = subprocess.run(
        ["bash", str(script)],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, run_dir, place / "probe")


def test_both_stages_run_with_flags_of_their_own(place: Path) -> None:
    log = place / "nsys.log"
    done = run_here(place, grok(place), CLOUDAI_RUN_NSYS_LOG=str(log))
    assert done.code == 0, done.output
    assert done.stages_run == ["perf-0", "perf-1", "profile-0", "profile-1"]
    profile, perf = (
        {(done.probe / f"{stage}-{rank}").read_text() for rank in (0, 1)} for stage in ("profile", "perf")
    )
    assert len(profile) == len(perf) == 1, "both ranks have the same flags"
    assert "--xla_gpu_enable_latency_hiding_scheduler=false" in profile.pop()
    flags = perf.pop()
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in flags
    assert f"--xla_gpu_pgle_profile_file_or_directory_path={done.run_dir}/pgle/profile.pbtxt" in flags
    assert [line.split()[1] for line in log.read_text().splitlines()] == ["0"], "nsys wrapped rank 0 alone, once"


@pytest.mark.parametrize(
    ("converted", "message"),
    [
        (None, "the converter wrote no profile"),
        ("", "profile.pbtxt is empty: nsys recorded no range with an hlo_op"),
        ("<html>", "profile.pbtxt is no profile"),
        ('costs { name: "tuple.1" cost_us: 1.0 }\n', "names no collective and no fusion, only: tuple.1"),
    ],
    ids=["missing", "empty", "garbage", "foreign"],
)
def test_without_a_usable_profile_the_job_stops_before_perf(
    place: Path, converted: str | None, message: str
) -> None:
    done = run_here(place, grok(place, converted=converted))
    assert done.code == 1
    assert done.stages_run == ["profile-0", "profile-1"]
    assert message in done.log("convert") + done.log("check")


def test_a_given_profile_is_checked_and_used(place: Path) -> None:
    recipe = grok(place)
    recipe.pgle.profile = str(place / "earlier.pbtxt")
    done = run_here(place, recipe)
    assert (done.code, done.stages_run) == (1, [])
    assert "earlier.pbtxt is missing" in done.log("check")
    (place / "earlier.pbtxt").write_text(GOOD)
    done = run_here(place, recipe)
    assert (done.code, done.stages_run) == (0, ["perf-0", "perf-1"])


def test_a_rank_without_its_end_fails_the_stage_and_is_named(place: Path) -> None:
    done = run_here(place, grok(place), SILENT="profile-1")
    assert done.code != 0
    assert done.stages_run == ["profile-0", "profile-1"]
    assert "E2E time: Elapsed time for" in done.output
    assert "1" in done.output.split("E2E time: Elapsed time for")[1]


def test_the_first_failed_stage_s_exit_code_is_the_job_s(place: Path) -> None:
    done = run_here(place, grok(place), EXIT="9")
    assert (done.code, done.stages_run) == (9, ["profile-0", "profile-1"])


def slurm_stages(recipe: run.Partial, nodes: int = 8) -> dict[str, object]:
    allocation = Allocation(nodes=nodes, ntasks_per_node=8, gpus_per_node=8, run_dir="/run", job_name="grok")
    return {stage.name: stage for stage in paxml_stages(recipe, allocation)}


def test_stages_of_the_plan() -> None:
    recipe = paxml.grok1()
    recipe.workload.container_image, recipe.nsys.options = "image", {"trace": "cuda,nvtx"}
    found = slurm_stages(recipe)
    profile, perf, convert = found["profile"], found["perf"], found["convert"]
    assert profile.nsys == Nsys(ranks=(0,), options={"trace": "cuda,nvtx"}, capture=NsysCapture.WHOLE)
    assert perf.nsys is None
    assert {stage.mpi for stage in found.values()} == {Mpi.NONE}
    assert {stage.container for stage in found.values()} == {"image"}
    assert [stage.layout for stage in found.values()] == [
        *(Layout.ONCE, Layout.ALL_RANKS, Layout.ONCE, Layout.ONCE, Layout.ALL_RANKS),
    ]
    assert profile.gate == perf.gate == Gate(text="E2E time: Elapsed time for", every_rank=True)
    assert ("--host_idx=", NodeVar("SLURM_PROCID")) in perf.argv
    assert report_path("/run", "grok", "profile", 0) in convert.argv


def test_the_recipe_names_the_function_that_makes_its_stages() -> None:
    from cloudai_run.executors.tasks import stages_from

    assert stages_from(paxml.grok1()) is paxml_stages
