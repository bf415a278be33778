"""Shell completion of factories, executors and override paths, as the shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cloudai-run pretrain --factory llama31_4", "llama31_405b"),
        ("cloudai-run pretrain --factory llama3_8b trainer.max_st", "trainer.max_steps="),
        (
            "cloudai-run pretrain -f llama3_8b trainer.strategy.tensor_m",
            "trainer.strategy.tensor_model_parallel_size=",
        ),
        ("cloudai-run pretrain -f llama3_8b run.executor=sl", "run.executor=slurm"),
    ],
)
def test_bash_completes(words: str, expected: str, tmp_path: Path):
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_CLOUDAI_RUN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    program = "from cloudai_run.cli.main import app; app(prog_name='cloudai-run')"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environ,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert expected in answer.stdout.splitlines(), answer.stderr
