"""Asks Slurm about a job: sacct first, then the controller."""

from __future__ import annotations

from cloudai_run.executors.shell import Shell
from cloudai_run.executors.slurm_words import (
    SACCT_FIELDS,
    Attempt,
    parse_sacct,
    parse_scontrol,
    parse_squeue,
)
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import Submission


def cluster_option(submission: Submission) -> list[str]:
    """Words that name the cluster, where sbatch named one."""
    return [f"--clusters={submission.cluster}"] if submission.cluster else []


def slurm_attempts(submission: Submission, shell: Shell) -> tuple[list[Attempt], str]:
    """What Slurm says of a job, and which command said it; no attempts if none of them knows the job."""
    job_id, cluster = submission.job_id, cluster_option(submission)
    # %s: seconds since 1970, in whatever zone the cluster is.
    words = ["env", "SLURM_TIME_FORMAT=%s", "sacct", *cluster, "-D", "-X", "-P", "-n"]
    sacct = shell.run([*words, f"--format={SACCT_FIELDS}", "-j", job_id])
    attempts = parse_sacct(sacct.stdout, job_id, submission.submitted_unix_s) if sacct.code == 0 else []
    if attempts and not _ask_again(attempts, submission):
        return attempts, "sacct"
    # Accounting is off, does not answer, or has not heard all of the job yet.
    told = ask_controller(submission, shell)
    if isinstance(told, Attempt):
        return [*attempts[: told.restarts], told], "scontrol"
    if attempts:
        return attempts, "sacct"
    squeue = shell.run(["squeue", *cluster, "-h", "-t", "all", "-o", "%A|%T|%N|%r", "-j", job_id])
    newest = parse_squeue(squeue.stdout, job_id) if squeue.code == 0 else None
    return ([newest], "squeue") if newest is not None else ([], "sacct")


def _ask_again(attempts: list[Attempt], submission: Submission) -> bool:
    """Whether the controller may know better than sacct, which hears of a job's changes one by one."""
    last = attempts[-1]
    requeued = last.state is JobState.NODE_FAIL and len(attempts) <= submission.retries
    unexplained = last.state is JobState.CANCELLED and not last.reason and not last.nodes
    lost_code = last.state is JobState.FAILED and last.exit_code == 0 and last.signal == 0
    return last.state is JobState.UNKNOWN or requeued or unexplained or lost_code


def ask_controller(submission: Submission, shell: Shell) -> Attempt | str | None:
    """What slurmctld says of a job; its own words if it does not know the job, None if it does not answer."""
    shown = shell.run(["scontrol", *cluster_option(submission), "-o", "show", "job", submission.job_id])
    if shown.code == 0:
        return parse_scontrol(shown.stdout, submission.job_id)
    return shown.stderr if "Invalid job id" in shown.stderr else None
