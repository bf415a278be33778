"""What the end of a job means for the numbers of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cloudai_run.metrics.samples import ParsedLog

if TYPE_CHECKING:
    from cloudai_run.executors.outcome import Outcome
    from cloudai_run.executors.stage_records import StageRun

# The job was ended from outside: that a stage's exit code is not 0 then says nothing more.
_ENDED_FROM_OUTSIDE = frozenset({"TIMEOUT", "DEADLINE", "CANCELLED", "PREEMPTED", "NODE_FAIL"})

_TOLD_BY_THE_LOG = frozenset({"time_limit", "cancelled", "node_failure"})


def job_words(job: Outcome) -> str:
    """Returns how a job stands or ended, in one to three lines."""
    text = job.text()
    return text if job.job_id else f"job {text}"


def without_consequences(log: ParsedLog, job: Outcome | None) -> ParsedLog:
    """Returns the log of a job that was ended from outside without blame for its ranks: srun names each as failed."""
    outside = job is not None and str(job.state) in _ENDED_FROM_OUTSIDE
    if not outside and not any(failure.kind in _TOLD_BY_THE_LOG for failure in log.failures):
        return log
    failures = (
        replace(failure, fatal=False) if failure.kind == "rank_failed" else failure
        for failure in log.failures
    )
    return replace(log, failures=tuple(failures))


def exit_code_of(stage: str, runs: Sequence[StageRun], job: Outcome | None) -> int | None:
    """Returns the exit code of a stage's last attempt; None if nobody knows it or the job's end explains it."""
    own = [run for run in runs if run.stage == stage]
    if not own or (job is not None and str(job.state) in _ENDED_FROM_OUTSIDE):
        return None
    return max(own, key=lambda run: run.attempt).exit_code


def job_reasons(job: Outcome | None) -> tuple[str, ...]:
    """Returns why a run is not complete by its job's end: it failed, was ended, or goes on; empty otherwise."""
    if job is None or job.state.succeeded:
        return ()
    words = job_words(job).splitlines()[0]
    if job.state.ended:
        return (words,)
    return () if str(job.state) == "UNKNOWN" else (f"the job has not ended: {words}",)


def why_no_log(stage: str, runs: Sequence[StageRun]) -> str:
    """Returns why a stage that should be measured has no steps."""
    if runs and not any(run.stage == stage for run in runs):
        return f"stage {stage}, which is the measured one, did not start"
    return f"stage {stage}, which is the measured one, left no log with steps"
