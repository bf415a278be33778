"""Asks Slurm about a job: sacct first, then the controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Answer:
    """What Slurm says of a job.

    Attributes:
        attempts: first to last; empty if nothing is said of the job.
        source: the command that said it.
        gone: both the accounting and the controller answered, and neither knows the job: they will tell no more.
    """

    attempts: tuple[Attempt, ...]
    source: str
    gone: bool = False


def ask_slurm(submission: Submission, shell: Shell) -> Answer:
    """Asks sacct, and the controller where that may know better."""
    job_id, cluster = submission.job_id, cluster_option(submission)
    # %s: seconds since 1970, in whatever zone the cluster is.
    words = ["env", "SLURM_TIME_FORMAT=%s", "sacct", *cluster, "-D", "-X", "-P", "-n"]
    sacct = shell.run([*words, f"--format={SACCT_FIELDS}", "-j", job_id])
    attempts = parse_sacct(sacct.stdout, job_id, submission.submitted_unix_s) if sacct.code == 0 else ()
    if attempts and not _ask_again(attempts, submission):
        return Answer(attempts, "sacct")
    # Accounting is off, does not answer, or has not heard all of the job yet.
    told = ask_controller(submission, shell)
    if isinstance(told, Attempt):
        before = max(len(attempts) - 1, 0) if told.restarts is None else told.restarts
        return Answer((*attempts[:before], told), "scontrol")
    if attempts:
        return Answer(attempts, "sacct")
    squeue = shell.run(["squeue", *cluster, "-h", "-t", "all", "-o", "%A|%T|%N|%r", "-j", job_id])
    newest = parse_squeue(squeue.stdout, job_id) if squeue.code == 0 else None
    if newest is not None:
        return Answer((newest,), "squeue")
    accounted = sacct.code == 0 or "accounting storage is disabled" in sacct.stderr
    return Answer((), "sacct", gone=accounted and isinstance(told, str))


def _ask_again(attempts: Sequence[Attempt], submission: Submission) -> bool:
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
        # A controller that lost its state gives the id again, to another job.
        told = parse_scontrol(shown.stdout, submission.job_id, submission.job_name)
        return told or f"{submission.job_id} is another job now"
    return shown.stderr if "Invalid job id" in shown.stderr else None
