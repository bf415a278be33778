"""A submitted job seen from anywhere, by its run folder: its state and outcome, and how to end it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.logs import failure_lines
from cloudai_run.executors.outcome import JobFailedError, Outcome, merge
from cloudai_run.executors.secret_files import remove_secret_file
from cloudai_run.executors.shell import LocalShell, Shell
from cloudai_run.executors.slurm_query import ask_controller, ask_slurm, cluster_option
from cloudai_run.executors.slurm_words import Attempt
from cloudai_run.executors.stage_records import STAGES_FILE, StageRun, of_attempt, parse_stages
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import Submission, read_submission


def outcome(run_dir: str | Path, shell: Shell | None = None) -> Outcome:
    """How the task of a run folder stands, or how it ended.

    Asks sacct, then scontrol, then squeue; a job that none of them knows is read from the stages file.
    Works from any client, also after the one that submitted is gone.

    Args:
        run_dir: NeMo-Run's folder of the task.
        shell: where Slurm's commands run; None takes the way in which the job was submitted.

    Raises:
        ExecutorError: the record of the submission cannot be read.
    """
    submission = read_submission(run_dir)
    if submission is None:
        return Outcome(state=JobState.UNKNOWN, note=f"nothing was submitted from {run_dir}")
    shell = shell or submission.shell()
    now, runs = _state(submission, shell)
    if now.settled:
        forget_secrets(submission, shell)
    if not now.state.ended or now.state.succeeded:
        return now
    failed = [run for run in of_attempt(runs, now.attempt) if run.stage == now.stage]
    node, line = failure_lines(submission, shell, failed[0] if failed else None)
    return replace(now, node=node, log_line=line)


def current_state(submission: Submission, shell: Shell) -> Outcome:
    """The same without a look into the logs: cheap enough to ask every two seconds."""
    return _state(submission, shell)[0]


def _state(submission: Submission, shell: Shell) -> tuple[Outcome, tuple[StageRun, ...]]:
    """The outcome, and the stages file as it was read after the question whether the job goes on.

    The other way round, a job that ends in between would seem to have ended without a word.
    """
    if submission.kind == "local":
        alive = submission.pid is not None and _alive(submission.pid)
        runs = stage_runs(submission, shell)
        merged = _local_state(runs, submission.stages, alive)
    else:
        answer = ask_slurm(submission, shell)
        runs = stage_runs(submission, shell)
        merged = merge(answer.attempts, answer.source, runs, submission.stages)
        if answer.gone and not merged.state.ended:
            note = f"Slurm does not know the job any more, and {merged.note}"
            merged = replace(merged, lost=True, note=note)
        if not merged.state.ended and merge((), "stages", runs, submission.stages).state.ended:
            merged = _lost_sight_of(submission, shell, runs, merged)
    return replace(merged, job_id=submission.job_id), runs


def _lost_sight_of(
    submission: Submission, shell: Shell, runs: Sequence[StageRun], running: Outcome
) -> Outcome:
    """A job that sacct calls running though the stages file has its end: the controller knows what is to come.

    A controller that crashed may have forgotten the job, and sacct then calls it running for ever.
    """
    newest = ask_controller(submission, shell)
    if newest is None:
        return running
    if isinstance(newest, Attempt):
        return replace(merge([newest], "scontrol", runs, submission.stages), attempts=running.attempts)
    told = merge((), "stages", runs, submission.stages)
    return replace(told, note=f"Slurm lost sight of the job: sacct still says {running.state}")


def stage_runs(submission: Submission, shell: Shell) -> tuple[StageRun, ...]:
    """What the stages file says; empty if it is not there (yet)."""
    if isinstance(shell, LocalShell):
        try:
            text = Path(submission.cluster_dir, STAGES_FILE).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ()
        return parse_stages(text)
    return parse_stages(shell.run(["cat", f"{submission.cluster_dir}/{STAGES_FILE}"]).stdout)


def _local_state(runs: Sequence[StageRun], stages: Sequence[str], alive: bool) -> Outcome:
    told = merge((), "local", runs, stages)
    if told.state.ended:
        # Nobody but the script saw how it was told to end.
        cancelled = told.exit_code == 128 + signal.SIGTERM
        return replace(told, state=JobState.CANCELLED) if cancelled else told
    if alive:
        return replace(told, state=JobState.RUNNING, source="local", note=None)
    note = "its processes are gone without an end in the stages file"
    return replace(told, state=JobState.FAILED, source="local", note=note)


def _alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and that its parent has not asked for is gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def cancel(submission: Submission, shell: Shell) -> None:
    """Ends a job; does nothing to one that has ended.

    Raises:
        ExecutorError: Slurm refused.
    """
    if submission.kind == "local":
        if submission.pid is not None and _alive(submission.pid):
            os.killpg(submission.pid, signal.SIGTERM)
        return
    result = shell.run(["scancel", *cluster_option(submission), submission.job_id])
    if result.code != 0 and "Invalid job id" not in result.stderr:
        raise ExecutorError(f"scancel {submission.job_id} failed: {result.stderr.strip()[:300]}")
    forget_secrets(submission, shell)


def forget_secrets(submission: Submission, shell: Shell) -> None:
    """Removes the secrets' file of a job whose script can no longer do it: it was cancelled, or never ran."""
    if submission.secret_file:
        remove_secret_file(shell, submission.secret_file)


def raise_for_failures(run_dirs: Iterable[str | Path]) -> None:
    """Raises if one of these jobs did not succeed.

    Raises:
        JobFailedError: names each failed job, its stage and its exit code.
    """
    failed = [one for one in map(outcome, run_dirs) if not one.state.succeeded]
    if failed:
        raise JobFailedError(failed)
