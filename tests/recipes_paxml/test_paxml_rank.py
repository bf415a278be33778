"""How one rank starts paxml.main."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cloudai_run.recipes.paxml as package
from cloudai_run.recipes.paxml import cloudai_run_rank as rank

SCRIPT = Path(package.__file__).parent / "cloudai_run_rank.py"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--server_addr=node1:job-123", "--server_addr=node1:20123"),
        ("--server_addr=node1:job-987654", "--server_addr=node1:27654"),
        ("--server_addr=[::1]:job-7", "--server_addr=[::1]:20007"),
        ("--server_addr=node1:5000", "--server_addr=node1:5000"),
        ("--fdl.NAME='x:job-1'", "--fdl.NAME='x:job-1'"),
    ],
)
def test_the_job_becomes_a_port(argument: str, expected: str) -> None:
    assert rank.with_port(argument) == expected


def test_ports_lie_below_those_that_linux_hands_out() -> None:
    assert {rank.port_of(job) // 10000 for job in (0, 9999, 10000, 67_000_000)} == {2}


def test_a_rank_becomes_paxml_main(tmp_path: Path) -> None:
    (tmp_path / "paxml").mkdir()
    (tmp_path / "paxml" / "__init__.py").write_text("")
    (tmp_path / "paxml" / "main.py").write_text(
        "import os, sys\nassert __name__ == '__main__'\nprint(sys.argv[1:])\nprint(os.environ['PYTHONPATH'])\n"
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "16",
        "XLA_FLAGS": "--xla_a=1",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--fdl.NAME=' a b'", "--server_addr=n:job-1"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        str(["--fdl.NAME=' a b'", "--server_addr=n:20001"]),
        f"{SCRIPT.parent}{os.pathsep}{tmp_path}",
    ]
    assert done.stderr.startswith("cloudai-run: rank 3 of 16 on ")
    assert done.stderr.rstrip().endswith("XLA_FLAGS=--xla_a=1")
