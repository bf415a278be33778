"""Real PAXML on the real Slurm cluster: both stages on two nodes, without MPI. nsys is the stand-in of tests/slurm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.recipes_paxml import paxml_env
from tests.slurm.conftest import home, lab  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.slurm, pytest.mark.paxml]

LIMIT_S = 1800


@dataclass(frozen=True)
class Run:
    """A finished run."""

    output: str
    run_dir: Path

    def report(self) -> dict[str, dict[str, object]]:
        """The report's stages by name."""
        return {
            stage["name"]: stage for stage in json.loads((self.run_dir / "report.json").read_text())["stages"]
        }

    def log(self, stage: str) -> str:
        return "".join(
            path.read_text() for path in sorted(self.run_dir.glob(f"logs/{stage}/attempt-0/node-*.log"))
        )

    def flags(self, stage: str) -> dict[int, set[str]]:
        """What each rank said that its XLA_FLAGS were."""
        found = re.findall(r"cloudai-run: rank (\d+) of 2 on node\d+, XLA_FLAGS=(.*)", self.log(stage))
        return {int(rank): set(flags.split()) for rank, flags in found}


def pretrain(folder: Path, recipe: str, steps: int, *words: str, **env: str) -> Run:
    """Runs `cloudai-run pretrain` on two nodes with one rank each, to the end."""
    layout = [
        "run.executor=slurm",
        "run.executor.nodes=2",
        "run.executor.ntasks_per_node=1",
        "run.executor.time=30",
    ]
    command = [sys.executable, "-m", "cloudai_run", "pretrain", "--factory", recipe, "--smoke"]
    done = subprocess.run(
        [*command, f"fdl.max_steps={steps}", *layout, *words],
        env={**os.environ, "CLOUDAI_RUN_PAXML_PYTHON": paxml_env.python(), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    (record,) = folder.rglob("run.json")
    assert done.returncode == 0, done.stdout + "".join(
        path.read_text() for path in record.parent.glob("slurm-*.out")
    )
    return Run(done.stdout, record.parent)


def assert_two_stages(run: Run, steps: int) -> None:
    for stage in ("profile", "perf"):
        log = run.log(stage)
        for rank in (0, 1):
            assert len(re.findall(rf"(?m)^{rank}: .*train_step\(\) took", log)) == steps, (stage, rank)
            assert f"JAX process: {rank} / 2" in log
        assert f"step_i: {steps}, training loss: " in log
        times = run.report()[stage]["step_time_s"]
        assert isinstance(times, dict)
        assert times["count"] > 0
        assert times["median"] > 0
    profile, perf = run.flags("profile"), run.flags("perf")
    assert profile[0] == profile[1]
    assert perf[0] == perf[1]
    assert "--xla_gpu_enable_latency_hiding_scheduler=false" in profile[0] - perf[0]
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in perf[0] - profile[0]
    assert f"--xla_gpu_pgle_profile_file_or_directory_path={run.run_dir}/pgle/profile.pbtxt" in perf[0]


def assert_nsys_wrapped_rank_0_of_the_profile_stage(log: Path) -> None:
    """The stand-in writes a line for each process that it wraps: host, rank, options."""
    ((host, rank, *options),) = [line.split() for line in log.read_text().splitlines()]
    assert (host, rank) == ("node1", "0")
    assert any(option.endswith(".profile.rank0") for option in options)


@pytest.mark.parametrize(("recipe", "steps"), [("grok1", 20), ("gpt", 8), ("nemotron", 8)])
@pytest.mark.usefixtures("lab")
def test_both_stages_on_two_ranks(home: Path, tmp_path: Path, recipe: str, steps: int) -> None:  # noqa: F811
    log = tmp_path / "nsys.log"
    run = pretrain(home, recipe, steps, CLOUDAI_RUN_NSYS_LOG=str(log))
    assert_two_stages(run, steps)
    assert_nsys_wrapped_rank_0_of_the_profile_stage(log)


@pytest.mark.usefixtures("lab")
def test_pgle_off_runs_perf_alone(home: Path, tmp_path: Path) -> None:  # noqa: F811
    log = tmp_path / "nsys.log"
    run = pretrain(home, "grok1", 8, "pgle.enabled=False", CLOUDAI_RUN_NSYS_LOG=str(log))
    assert list(run.report()) == ["perf"]
    assert not any("pgle_profile" in flag for flag in run.flags("perf")[0])
    assert not log.exists()
