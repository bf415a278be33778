"""sbatch: its command line, and the job id that it answers with."""

from __future__ import annotations

from collections.abc import Sequence

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.shell import Shell
from cloudai_run.executors.slurm_words import parse_job_id


def sbatch_words(
    script: str,
    *,
    secrets: Sequence[str] = (),
    dependencies: Sequence[str] = (),
    dependency_type: str = "afterok",
) -> list[str]:
    """The command that submits a script.

    Args:
        script: its path on the cluster.
        secrets: variables that sbatch must not see: with its default export Slurm writes them to disk.
        dependencies: ids of jobs that must end first.
        dependency_type: as Slurm's `--dependency` writes it.
    """
    words = ["env", *(word for name in secrets for word in ("-u", name)), "sbatch", "--parsable"]
    if dependencies:
        words.append(f"--dependency={dependency_type}:{':'.join(dependencies)}")
        # Or a job whose dependency failed would stay pending for ever.
        words.append("--kill-on-invalid-dep=yes")
    return [*words, script]


def submit(shell: Shell, words: Sequence[str]) -> tuple[str, str | None]:
    """Runs sbatch; returns the job id and the cluster if sbatch named one.

    Raises:
        ExecutorError: with what sbatch said, if it submitted nothing.
    """
    result = shell.run(words)
    if result.code != 0:
        said = [line for line in (result.stderr or result.stdout).strip().splitlines() if line.strip()]
        raise ExecutorError("sbatch did not take the job" + "".join(f"\n  {line}" for line in said[-4:]))
    return parse_job_id(result.stdout)
