"""Runs the plan of a PAXML recipe on this machine, by the script that the executors make of it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import nemo_run as run

from cloudai_run.executors.plan import Allocation, Directives, Plan
from cloudai_run.executors.render_local import render_local
from cloudai_run.stages_paxml import paxml_stages

NSYS = Path(__file__).parents[1] / "slurm" / "bin" / "nsys"


@dataclass(frozen=True)
class Done:
    """What a run left."""

    code: int
    output: str
    run_dir: Path

    def log(self, stage: str) -> str:
        return "".join(
            path.read_text() for path in sorted(self.run_dir.glob(f"logs/{stage}/attempt-0/node-*.log"))
        )


def run_here(place: Path, recipe: run.Partial, ranks: int = 2, **env: str) -> Done:
    """Runs `recipe` in the run folder `place/run`, with `env` beside this process's environment."""
    run_dir = place / "run"
    run_dir.mkdir(exist_ok=True)
    allocation = Allocation(
        nodes=1, ntasks_per_node=ranks, gpus_per_node=None, run_dir=str(run_dir), job_name="grok", local=True
    )
    stages = paxml_stages(recipe, allocation)
    directives = Directives(nodes=1, ntasks_per_node=ranks)
    script = place / "run.sh"
    script.write_text(
        render_local(Plan(job_name="grok", run_dir=str(run_dir), stages=stages, directives=directives))
    )
    done = subprocess.run(
        ["bash", str(script)],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, run_dir)
