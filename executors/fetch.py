"""Brings what a job wrote on a cluster behind SSH into the run folder here."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.log_files import RunFiles
from cloudai_run.executors.shell import TunnelShell
from cloudai_run.executors.stage_records import STAGES_FILE
from cloudai_run.executors.submission import read_submission

#: Folders that a report does not read and that may hold gigabytes.
PROFILES = ("nsys",)


def fetch_run(run_dir: str | Path, *, profiles: bool = False) -> None:
    """Copies logs, the stages file and the job's output from the cluster; does nothing where it has the same disk.

    Args:
        run_dir: NeMo-Run's folder of the task.
        profiles: the reports of nsys too.

    Raises:
        ExecutorError: the cluster cannot be reached, or what it sent is no archive.
    """
    submission = read_submission(run_dir)
    shell = submission.shell() if submission else None
    if submission is None or not isinstance(shell, TunnelShell):
        return
    names = [STAGES_FILE, "logs", *RunFiles(submission, shell).outputs(), *(PROFILES if profiles else ())]
    # tar says so and goes on if one of them is not there (yet).
    words = ["tar", "-C", submission.cluster_dir, "-cz", "--", *names]
    try:
        archive = shell.output(words)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            tar.extractall(run_dir, filter="data")
    except (OSError, EOFError, tarfile.TarError) as error:
        raise ExecutorError(f"{submission.cluster_dir} did not come over SSH: {error}") from error
