"""The real NeMo, shrunk, as a Slurm job on two nodes: data parallel over gloo, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.launching import Shell
from tests.slurm.lab import Lab

pytestmark = [pytest.mark.slurm, pytest.mark.nemo]


@pytest.mark.usefixtures("lab")
def test_a_smoke_run_on_two_nodes(lab: Lab, tmp_path: Path):
    shell = Shell.at(tmp_path, SLURM_CONF=str(lab.root / "etc" / "slurm.conf"))
    words = ("trainer.max_steps=5", "run.executor=slurm", "run.executor.nodes=2", "run.executor.time=5")
    answer = shell.cloudai_run("pretrain", "--factory", "llama3_8b", "--smoke", *words, "--json")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["smoke"] is True
    assert report["num_gpus"] == 2
    assert report["status"] == "valid"
    assert len(report["stages"][0]["steps"]) == 5
    assert len(report["nodes"]) == 2
