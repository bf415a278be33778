"""The files that a job writes into its run folder, read from here or over SSH, whole or as they grow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cloudai_run.executors.shell import Shell, TunnelShell
from cloudai_run.executors.submission import Submission

_STAGE_LOG = re.compile(r"logs/(?P<stage>[^/]+)/attempt-(?P<attempt>\d+)/(?P<name>[^/]+)\.log")


@dataclass(frozen=True)
class LogFile:
    """One log of a stage.

    Attributes:
        stage: its name.
        attempt: 0, or how often the job was started again before.
        name: `rank-0` (rank 0's lines), or `node-K-NAME` (those of every rank of a node, labelled).
        path: relative to the run folder.
    """

    stage: str
    attempt: int
    name: str
    path: str


class RunFiles:
    """The run folder where the job writes it."""

    def __init__(self, submission: Submission, shell: Shell) -> None:
        self._dir = submission.cluster_dir
        self._shell = shell if isinstance(shell, TunnelShell) else None

    def logs(self) -> list[LogFile]:
        """Every log of a stage, in the order of their paths."""
        return [
            LogFile(match["stage"], int(match["attempt"]), match["name"], match[0])
            for path in self._paths("logs", "*.log")
            if (match := _STAGE_LOG.fullmatch(path))
        ]

    def outputs(self) -> list[str]:
        """Paths of the output of the job's script itself, relative to the run folder."""
        return self._paths(".", "slurm-*.out") or self._paths("nemo_run", "stderr.log")

    def _paths(self, folder: str, pattern: str) -> list[str]:
        if self._shell is None:
            root = Path(self._dir)
            found = (root / folder).glob(f"**/{pattern}" if folder != "." else pattern)
            return sorted(str(path.relative_to(root)) for path in found)
        depth = ["-maxdepth", "1"] if folder == "." else []
        root_path = self._dir if folder == "." else f"{self._dir}/{folder}"
        listed = self._shell.run(["find", root_path, *depth, "-type", "f", "-name", pattern])
        return sorted(line.removeprefix(f"{self._dir}/") for line in listed.stdout.splitlines())

    def read(self, path: str, offset: int = 0) -> bytes:
        """The bytes of a file from `offset` on, a negative one from its end; b"" if it is not there."""
        if self._shell is None:
            try:
                with open(Path(self._dir, path), "rb") as file:
                    size = file.seek(0, 2)
                    file.seek(max(0, size + offset) if offset < 0 else min(offset, size))
                    return file.read()
            except FileNotFoundError:
                return b""
        start = str(-offset) if offset < 0 else f"+{offset + 1}"
        return self._shell.output(["tail", "-c", start, "--", f"{self._dir}/{path}"])


def rank_line(line: str) -> tuple[int, str] | None:
    """Rank and text of a labelled line, `17: text`; None if it has no label."""
    match = re.match(r" *(\d+): ?(.*)", line)
    return (int(match[1]), match[2]) if match else None
