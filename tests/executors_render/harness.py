"""Runs a rendered script under the real bash, with stand-ins for Slurm's commands and for the stages' programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloudai_run.executors.plan import Directives, Plan, Stage
from cloudai_run.executors.render import render_sbatch

_FAKES = Path(__file__).parent / "fakes"
# The interpreter under the environment's link: a #! line cannot hold the white space of a checkout's path.
INTERPRETER = os.path.realpath(sys.executable)

_SCONTROL = """#!/bin/bash
echo "$*" >>"$FAKE_SCONTROL_LOG"
[[ $1 == show ]] || exit 0
for ((node = 1; node <= SLURM_NNODES; node++)); do echo "node$node"; done
"""
_ENROOT = """#!/bin/bash
echo "$SLURM_NODEID $*" >>"${FAKE_SRUN_LOG%/*}/enroot.log"
[[ $3 == pyxis_nemo_4711_0 ]] # pyxis's name under its global scope
"""
PROGRAMS = ("nemo", "paxml", "pgo_converter", "all_reduce_perf", "tool with space")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a script left behind.

    Attributes:
        code: its exit code.
        stdout: its output.
        stderr: its errors.
        run_dir: the run folder.
        sruns: each srun, as `options` and `command`.
        programs: each process of a stage, as `program`, `arguments`, `env` and `rank`.
        scontrol: the calls of scontrol.
    """

    code: int
    stdout: str
    stderr: str
    run_dir: Path
    sruns: list[dict[str, Any]]
    programs: list[dict[str, Any]]
    scontrol: list[str]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The lines of stages.jsonl."""
        return read_lines(self.run_dir / "stages.jsonl")

    def ends(self) -> dict[str, int]:
        """Exit code by stage."""
        return {record["stage"]: record["exit_code"] for record in self.records if record["event"] == "end"}

    def reason(self, stage: str) -> str | None:
        """Why a stage failed, from its record."""
        return next(r["reason"] for r in self.records if r["stage"] == stage and r["event"] == "end")

    def log(self, stage: str, file: str, attempt: int = 0) -> str:
        """Text of one of a stage's logs."""
        return (self.run_dir / "logs" / stage / f"attempt-{attempt}" / file).read_text()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Reads a file of JSON lines; a missing one has none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def install_fakes(folder: Path, *, nsys: bool = True) -> Path:
    """Makes a folder for PATH with the stand-ins."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {
        "srun": "srun.py",
        **({"nsys": "nsys.py"} if nsys else {}),
        **dict.fromkeys(PROGRAMS, "program.py"),
    }
    for name, source in sources.items():
        text = (_FAKES / source).read_text()
        (folder / name).write_text(f"#!{INTERPRETER} -IS\n{text}")
    (folder / "scontrol").write_text(_SCONTROL)
    (folder / "enroot").write_text(_ENROOT)
    for file in folder.iterdir():
        file.chmod(0o755)
    return folder


def script_env(folder: Path, *, nodes: int, attempt: int | None, extra: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment in which Slurm would start the script."""
    env = {
        "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "FAKE_SRUN_LOG": str(folder / "sruns.jsonl"),
        "FAKE_PROGRAM_LOG": str(folder / "programs.jsonl"),
        "FAKE_SCONTROL_LOG": str(folder / "scontrol.log"),
        "SLURM_JOB_ID": "4711",
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NODELIST": f"node[1-{nodes}]",
    }
    return env | ({"SLURM_RESTART_COUNT": str(attempt)} if attempt is not None else {}) | dict(extra)


def run_script(
    script: str,
    folder: Path,
    *,
    run_dir: Path,
    nodes: int = 2,
    attempt: int | None = None,
    env: Mapping[str, str] | None = None,
    nsys: bool = True,
) -> Outcome:
    """Runs a script of sbatch's, or a local one, and returns what it left."""
    install_fakes(folder / "bin", nsys=nsys)
    run_dir.mkdir(parents=True, exist_ok=True)
    path = folder / "script.sh"
    path.write_text(script)
    done = subprocess.run(
        ["bash", str(path)],
        env=script_env(folder, nodes=nodes, attempt=attempt, extra=env or {}),
        cwd=folder,
        capture_output=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    scontrol = folder / "scontrol.log"
    return Outcome(
        code=done.returncode,
        stdout=os.fsdecode(done.stdout),
        stderr=os.fsdecode(done.stderr),
        run_dir=run_dir,
        sruns=read_lines(folder / "sruns.jsonl"),
        programs=read_lines(folder / "programs.jsonl"),
        scontrol=scontrol.read_text().splitlines() if scontrol.exists() else [],
    )


def plan_of(folder: Path, *stages: Stage, **fields: Any) -> Plan:
    """Returns a plan for 2 nodes of 2 ranks whose run folder lies in `folder`."""
    given = {"directives": Directives(nodes=2, ntasks_per_node=2), **fields}
    return Plan(job_name="job", run_dir=str(folder / "run"), stages=stages, **given)


def run_plan(plan: Plan, folder: Path, **how: Any) -> Outcome:
    """Renders a plan and runs its script."""
    return run_script(render_sbatch(plan), folder, run_dir=Path(plan.run_dir), **how)


def stage(name: str, *arguments: str, **fields: Any) -> Stage:
    """Returns a stage that runs the recording program."""
    return Stage(name=name, argv=("nemo", *arguments), **fields)
