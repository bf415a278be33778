"""Starts the cluster for the tests that are marked `slurm`, unless it is up, and gives each test a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nemo_run.config import get_nemorun_home, set_nemorun_home

from tests.slurm.lab import CLUSTER, Lab

NODES = 8


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The cluster; one that this session started ends with it."""
    root = Path(os.environ.get("CLOUDAI_RUN_LAB", "/run/cloudai-run-lab"))
    was_up = (root / "run" / "want").exists()
    subprocess.run([str(CLUSTER), "start", str(NODES)], check=True)
    before = {name: os.environ.get(name) for name in ("SLURM_CONF", "PATH")}
    os.environ["SLURM_CONF"] = str(root / "etc" / "slurm.conf")
    # The stand-ins (nsys, enroot), and the interpreter of the tests as `python`.
    os.environ["PATH"] = f"{root / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    yield Lab(root)
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if not was_up:
        subprocess.run([str(CLUSTER), "stop"], check=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """NEMORUN_HOME of one test, in this process and for those that it starts."""
    before, before_env = get_nemorun_home(), os.environ.get("NEMORUN_HOME")
    path = tmp_path / "home"
    set_nemorun_home(str(path))
    os.environ["NEMORUN_HOME"] = str(path)
    yield path
    set_nemorun_home(before)
    if before_env is None:
        del os.environ["NEMORUN_HOME"]
    else:
        os.environ["NEMORUN_HOME"] = before_env
