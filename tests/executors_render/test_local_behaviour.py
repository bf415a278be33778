"""What a script for a run without Slurm does besides what it shares with one for sbatch."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from cloudai_run.executors import machinery
from cloudai_run.executors.plan import Directives, Layout, LocalLauncher, NodeVar, Nsys, Plan, Stage
from cloudai_run.executors.render_local import render_local
from tests.executors_render.harness import (
    INTERPRETER,
    Outcome,
    install_fakes,
    plan_of,
    read_lines,
    run_script,
    script_env,
    stage,
)
from tests.executors_render.plans import local_launchers

_TORCHRUN = f"""#!{INTERPRETER} -IS
import os, subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--n") or word == "--standalone"][:3]
command = sys.argv[1 + len(options):]
ranks = int(options[1].partition("=")[2])
started = [
    subprocess.Popen(command, env={{**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "GROUP_RANK": "0"}})
    for r in range(ranks)
]
sys.exit(max(process.wait() for process in started))
"""


def local_plan(folder: Path, *stages: Stage) -> Plan:
    """Returns a plan for this machine with three ranks."""
    return plan_of(folder, *stages, directives=Directives(ntasks_per_node=3))


def run_local(plan: Plan, folder: Path) -> Outcome:
    """Runs a plan without Slurm."""
    return run_script(render_local(plan), folder, run_dir=Path(plan.run_dir))


def test_ranks_are_told_what_slurm_would_tell_them(tmp_path: Path) -> None:
    outcome = run_local(local_plan(tmp_path, stage("all"), stage("one", layout=Layout.ONCE)), tmp_path)
    assert outcome.code == 0
    names = (
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_NNODES",
        "SLURM_JOB_NAME",
    )
    told = sorted(tuple(program["env"][name] for name in names) for program in outcome.programs)
    assert told == [
        ("0", "0", "0", "1", "1", "job"),
        *((str(rank), str(rank), "0", "3", "1", "job") for rank in range(3)),
    ]


def test_output_is_labelled_and_rank_0_is_shown(tmp_path: Path) -> None:
    plan = local_plan(tmp_path, stage("all", "--print", "hello", "--print-on", "0", "only 0"))
    outcome = run_local(plan, tmp_path)
    host = outcome.records[0]["nodes"][0]
    assert sorted(outcome.log("all", f"node-0-{host}.log").splitlines()) == [
        "0: hello",
        "0: only 0",
        "1: hello",
        "2: hello",
    ]
    assert outcome.log("all", "rank-0.log") == "hello\nonly 0\n"
    assert [line for line in outcome.stdout.splitlines() if not line.startswith("{")] == ["hello", "only 0"]


def test_first_rank_that_fails_ends_the_others_and_the_run(tmp_path: Path) -> None:
    began = time.monotonic()
    plan = local_plan(tmp_path, stage("two", "--exit-on", "1", "9", "--sleep", "60"), stage("three"))
    outcome = run_local(plan, tmp_path)
    assert (outcome.code, outcome.ends()) == (9, {"two": 9})
    assert time.monotonic() - began < 30
    assert "cloudai-run: stage two failed with exit code 9" in outcome.stderr


def test_stage_over_its_time_is_ended_with_124(tmp_path: Path) -> None:
    outcome = run_local(local_plan(tmp_path, stage("hangs", "--sleep", "60", timeout_s=1)), tmp_path)
    assert (outcome.code, outcome.reason("hangs")) == (
        machinery.TIMEOUT_EXIT_CODE,
        "ended at its time limit of 1 s",
    )


def test_run_that_is_told_to_end_ends_its_ranks_and_records_it(tmp_path: Path) -> None:
    plan = local_plan(tmp_path, stage("train", "--print", "step 1", "--sleep", "60"), stage("next"))
    install_fakes(tmp_path / "bin")
    Path(plan.run_dir).mkdir()
    (tmp_path / "script.sh").write_text(render_local(plan))
    process = subprocess.Popen(
        ["bash", str(tmp_path / "script.sh")], env=script_env(tmp_path, nodes=1, attempt=None, extra={})
    )
    while len(read_lines(tmp_path / "programs.jsonl")) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    records = read_lines(tmp_path / "run" / "stages.jsonl")
    assert [(record["event"], record["exit_code"]) for record in records] == [("start", None), ("end", 143)]
    assert (tmp_path / "run" / "logs" / "train" / "attempt-0" / "rank-0.log").read_text() == "step 1\n"
    running = subprocess.run(["pgrep", "-f", f"{tmp_path}/bin/nemo"], capture_output=True, text=True)
    assert running.stdout == ""


def test_nsys_wraps_rank_0_alone(tmp_path: Path) -> None:
    outcome = run_local(local_plan(tmp_path, stage("perf", nsys=Nsys())), tmp_path)
    assert [program["rank"] for program in outcome.programs if program["program"] == "nsys"] == ["0"]
    assert len(outcome.programs) == 4
    assert (tmp_path / "run" / "nsys" / "job.perf.rank0.nsys-rep").is_file()


def test_ranks_of_torchrun_and_of_the_program_itself(tmp_path: Path) -> None:
    install_fakes(tmp_path / "bin")
    (tmp_path / "bin" / "torchrun").write_text(_TORCHRUN)
    plan = local_launchers(str(tmp_path / "run"))
    outcome = run_script(render_local(plan), tmp_path, run_dir=tmp_path / "run", env={"SLURM_NTASKS": "8"})
    assert (outcome.code, outcome.stderr) == (0, "")
    alone, *started = outcome.programs
    assert (alone["arguments"], alone["rank"], alone["env"].get("SLURM_NTASKS")) == (
        ["trainer.devices=2"],
        "0",
        None,
    )
    ranks = [program["arguments"] for program in started if program["program"] == "nemo"]
    assert sorted(ranks) == [["--rank=0"], ["--rank=1"]]
    assert (tmp_path / "run" / "nsys" / "launchers.torchrun.rank1.nsys-rep").is_file()


def test_workdir_is_where_the_program_starts(tmp_path: Path) -> None:
    script = Stage(
        name="where", argv=("bash", "-c", 'echo "$PWD $1"', "bash", NodeVar("SLURM_PROCID")), workdir="/usr"
    )
    assert run_local(local_plan(tmp_path, script), tmp_path).log("where", "rank-0.log") == "/usr 0\n"


def test_local_launcher_counts_for_all_ranks_only(tmp_path: Path) -> None:
    one = stage("one", layout=Layout.ONCE, local_launcher=LocalLauncher.TORCHRUN)
    assert "torchrun" not in render_local(local_plan(tmp_path, one))
