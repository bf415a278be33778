"""Runs the command as a user would: in a process of its own, in a folder of the test's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Shell:
    """A folder to work in, with a home for runs of its own."""

    folder: Path
    environ: Mapping[str, str]

    @classmethod
    def at(cls, folder: Path, **environ: str) -> Shell:
        folder.mkdir(parents=True, exist_ok=True)
        own = {
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "NEMORUN_HOME": str(folder / "runs"),
            "PYTHONPATH": str(ROOT),
        }
        return cls(folder, {**os.environ, **own, **environ})

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=self.folder, env=dict(self.environ), capture_output=True, text=True, check=False
        )

    def cloudai_run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "cloudai_run", *words)

    def run_folder(self, title: str) -> Path:
        """The folder of the only run of that title."""
        (found,) = self.folder.glob(f"runs/experiments/{title}/*/{title}")
        return found
