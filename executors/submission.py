"""The record that a submitted task leaves in its run folder, and the index from job id to run folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.shell import LocalShell, Shell, TunnelShell

if TYPE_CHECKING:
    from nemo_run.core.tunnel.client import SSHTunnel

#: In the run folder, on the machine that submitted.
SUBMISSION_FILE = "submission.json"
#: In NEMORUN_HOME: one line a job, the newest last.
INDEX_FILE = ".cloudai_run_jobs.jsonl"
_SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SshTarget:
    """How to reach the login node again: the constructor's arguments of NeMo-Run's SSHTunnel."""

    host: str
    user: str
    job_dir: str
    port: int | None = None
    identity: str | None = None
    pre_command: str | None = None

    def tunnel(self) -> SSHTunnel:
        from nemo_run.core.tunnel.client import SSHTunnel

        return SSHTunnel(
            host=self.host,
            user=self.user,
            job_dir=self.job_dir,
            port=self.port,
            identity=self.identity,
            pre_command=self.pre_command,
        )


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What is known of a task once it is submitted.

    Attributes:
        kind: `slurm` or `local`.
        job_id: Slurm's, or torchx's name of the local run.
        cluster: the cluster that sbatch named, None for the default one.
        task: NeMo-Run's id of the task.
        job_name: Slurm's.
        run_dir: the run folder on the machine that submitted.
        cluster_dir: the run folder where the job runs; differs from `run_dir` only over SSH.
        stages: names, in order.
        submitted_unix_s: by the clock of the machine that ran sbatch.
        retries: how often Slurm may start the job again.
        secret_file: made for this job and to be removed with it, None if there is none.
        ssh: None if Slurm's commands run on the machine that submitted.
        pid: process group of a local run.
    """

    kind: str
    job_id: str
    task: str
    job_name: str
    run_dir: str
    cluster_dir: str
    stages: tuple[str, ...]
    submitted_unix_s: float
    cluster: str | None = None
    retries: int = 0
    secret_file: str | None = None
    ssh: SshTarget | None = None
    pid: int | None = None

    def shell(self) -> Shell:
        """Where Slurm's commands and the job's files are."""
        return TunnelShell(self.ssh.tunnel()) if self.ssh else LocalShell()


def write_submission(submission: Submission) -> None:
    """Writes the record, whole or not at all."""
    path = Path(submission.run_dir) / SUBMISSION_FILE
    text = json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(submission)}, indent=2, sort_keys=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    os.replace(temporary, path)


def read_submission(run_dir: str | Path) -> Submission | None:
    """The record in a run folder; None if nothing was submitted from it.

    The folder may have been moved or copied since: `run_dir` of the result is where it was read.

    Raises:
        ExecutorError: the record cannot be read.
    """
    path = Path(run_dir) / SUBMISSION_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ExecutorError(f"{path} cannot be read: {error}") from error
    if data.pop("schema_version", None) != _SCHEMA_VERSION:
        raise ExecutorError(f"{path} was written by another version of cloudai-run")
    ssh = data.pop("ssh")
    data["stages"] = tuple(data["stages"])
    if data["cluster_dir"] == data["run_dir"]:
        data["cluster_dir"] = str(Path(run_dir).absolute())
    data["run_dir"] = str(Path(run_dir).absolute())
    return Submission(**data, ssh=SshTarget(**ssh) if ssh else None)


def add_to_index(home: str | Path, submission: Submission) -> None:
    """Notes which run folder a job id belongs to, in one write, as several clients may do so at once."""
    line = json.dumps({"job_id": submission.job_id, "run_dir": submission.run_dir}) + "\n"
    Path(home).mkdir(parents=True, exist_ok=True)
    with open(Path(home) / INDEX_FILE, "a", encoding="utf-8") as file:
        file.write(line)


def find_in_index(home: str | Path, job_id: str) -> str | None:
    """The run folder of a job id, the newest if two clusters used the same; None if it is not known."""
    try:
        lines = (Path(home) / INDEX_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:  # torn by a full disk
            continue
        if entry.get("job_id") == job_id:
            return str(entry["run_dir"])
    return None
