"""The environment of real PAXML, for the tests that run it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cloudai_run.recipes.paxml.smoke import CPU_ENV, smoke_python

ENV = {**CPU_ENV, "PYTHONPATH": ""}


def python() -> str:
    """Returns its interpreter, which `make paxml-env` makes; it must be there."""
    found = smoke_python()
    assert Path(found).is_file(), (
        f"no PAXML environment at {found}: make paxml-env, or set CLOUDAI_RUN_PAXML_PYTHON"
    )
    return found


def run(args: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter with `args`; the result's returncode is not looked at."""
    return subprocess.run(
        [python(), *args], env={**os.environ, **ENV, **env}, capture_output=True, text=True, check=False
    )
