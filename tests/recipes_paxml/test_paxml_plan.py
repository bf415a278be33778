"""From a recipe to the executors' plan, and through a whole run of it with a stand-in for PAXML.

The stand-in is a package `paxml` that prints what PAXML prints and leaves its XLA_FLAGS in a file; the converter is
one that writes what a test wants. nsys is the stand-in of tests/slurm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fiddle as fdl
import nemo_run as run
import pytest

from cloudai_run.executors.nsys import Nsys, NsysCapture, report_path
from cloudai_run.executors.plan import Allocation, Gate, Layout, Mpi, NodeVar, Stage
from cloudai_run.recipes import paxml
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import smoke
from cloudai_run.stages_paxml import paxml_stages
from tests.recipes_paxml.local_run import NSYS, run_here

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


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stand-ins, on PATH and PYTHONPATH."""
    for folder in ("bin", "lib/paxml", "probe"):
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


def stages_run(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "probe").iterdir())


def test_both_stages_run_with_flags_of_their_own(place: Path) -> None:
    log = place / "nsys.log"
    done = run_here(place, grok(place), CLOUDAI_RUN_NSYS_LOG=str(log))
    assert done.code == 0, done.output
    assert stages_run(place) == ["perf-0", "perf-1", "profile-0", "profile-1"]
    profile, perf = (
        {(place / "probe" / f"{stage}-{rank}").read_text() for rank in (0, 1)}
        for stage in ("profile", "perf")
    )
    assert len(profile) == len(perf) == 1, "both ranks have the same flags"
    assert "--xla_gpu_enable_latency_hiding_scheduler=false" in profile.pop()
    flags = perf.pop()
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in flags
    assert f"--xla_gpu_pgle_profile_file_or_directory_path={done.run_dir}/pgle/profile.pbtxt" in flags
    assert [line.split()[1] for line in log.read_text().splitlines()] == ["0"], (
        "nsys wrapped rank 0 alone, once"
    )


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
    assert stages_run(place) == ["profile-0", "profile-1"]
    assert message in done.log("convert") + done.log("check")


def test_a_given_profile_is_checked_and_used(place: Path) -> None:
    recipe = grok(place)
    recipe.pgle.profile = str(place / "earlier.pbtxt")
    done = run_here(place, recipe)
    assert (done.code, stages_run(place)) == (1, [])
    assert "earlier.pbtxt is missing" in done.log("check")
    (place / "earlier.pbtxt").write_text(GOOD)
    done = run_here(place, recipe)
    assert (done.code, stages_run(place)) == (0, ["perf-0", "perf-1"])


def test_a_rank_without_its_end_fails_the_stage_and_is_named(place: Path) -> None:
    done = run_here(place, grok(place), SILENT="profile-1")
    assert done.code != 0
    assert stages_run(place) == ["profile-0", "profile-1"]
    assert "E2E time: Elapsed time for" in done.output
    assert "1" in done.output.split("E2E time: Elapsed time for")[1]


def test_the_first_failed_stage_s_exit_code_is_the_job_s(place: Path) -> None:
    done = run_here(place, grok(place), EXIT="9")
    assert (done.code, stages_run(place)) == (9, ["profile-0", "profile-1"])


def called(place: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int = 0) -> run.Partial:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("EXIT", str(exit_code))
    monkeypatch.setattr("tempfile.tempdir", str(place))
    recipe, _ = smoke.cpu_smoke(paxml.grok1(), has_nsys=False, python=sys.executable)
    return recipe


def test_a_recipe_that_is_called_runs_where_it_stands(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fdl.build(called(place, monkeypatch))()
    assert stages_run(place) == ["perf-0"]
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in (place / "probe" / "perf-0").read_text()


def test_a_called_recipe_that_fails_says_which_stage(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        RecipeError, match=r"^stage perf ended with exit code 7; its output is above, its files are"
    ):
        fdl.build(called(place, monkeypatch, exit_code=7))()


def test_a_called_recipe_cannot_profile() -> None:
    with pytest.raises(
        RecipeError, match=r"^grok1 has a profile stage, which needs an executor of cloudai-run\n"
    ):
        fdl.build(paxml.grok1())()


@pytest.mark.parametrize("report", ["nvtxkernsum", "nvtx_kern_sum"])
def test_the_stand_in_of_nsys_answers_old_and_new_converters(tmp_path: Path, report: str) -> None:
    (tmp_path / "x.nsys-rep").write_text("report")
    words = ["stats", "--force-overwrite", "true", "--force-export", "true", "--report", report, "x.nsys-rep"]
    subprocess.run([NSYS, *words, "-o", "x.pbtxt"], cwd=tmp_path, check=True)
    header, first, *_ = (tmp_path / f"x.pbtxt_{report}.csv").read_text().splitlines()
    assert '"NVTX Range"' in header
    assert "hlo_op=all-gather-start.1#" in first
    assert (tmp_path / "x.sqlite").exists(), "the real one leaves it, and the converter removes it"


def slurm_stages(recipe: run.Partial, nodes: int = 8) -> dict[str, Stage]:
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
