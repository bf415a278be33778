"""Waiting for a run: what it does is shown, Ctrl-C lets it go on alone, and a second one ends it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import typer

from cloudai_run.errors import RunFailed
from cloudai_run.executors.jobs import cancel, current_state, outcome
from cloudai_run.executors.logs import read_logs
from cloudai_run.executors.outcome import Outcome
from cloudai_run.executors.shell import Shell
from cloudai_run.executors.submission import Submission, read_submission

# Slurm's controller answers many users; a local run's state is a file.
POLL_INTERVAL_S = {"slurm": 2.0, "local": 0.2}
# After the first Ctrl-C a second one within this time ends the job.
SECOND_CTRL_C_S = 3.0


class Detached(Exception):
    """The user let the job go on alone."""


def say(text: str) -> None:
    """Prints a line about the launch, apart from the results on standard output."""
    typer.echo(text, err=True)


def come_back(run_id: str) -> str:
    """Returns how to see a run again."""
    return (
        f"the run goes on; to come back: cloudai-run status {run_id}\n"
        f"  logs: cloudai-run logs {run_id} --follow    end it: cloudai-run cancel {run_id}"
    )


def wait(run_dir: Path, run_id: str, *, tail_logs: bool = False) -> Outcome:
    """Waits until a run ends.

    Raises:
        Detached: Ctrl-C while waiting for a Slurm job.
        RunFailed: nothing was submitted.
    """
    submission = read_submission(run_dir)
    if submission is None:
        raise RunFailed(f"nothing was submitted from {run_dir}")
    shell = submission.shell()
    tail = _tail(run_dir) if tail_logs else None
    try:
        _poll(submission, shell)
    except KeyboardInterrupt:
        _interrupted(submission, shell, run_id)
    if tail:
        tail.join(timeout=5)
    return outcome(run_dir, shell)


def _poll(submission: Submission, shell: Shell) -> None:
    """Returns once the job has ended; says each change of its state and stage."""
    interval_s = POLL_INTERVAL_S[submission.kind]
    started, shown = time.monotonic(), ""
    while True:
        now = current_state(submission, shell)
        line = f"{now.state}{f', stage {now.stage}' if now.stage else ''}"
        if line != shown and not now.settled:
            shown = line
            say(f"  {time.monotonic() - started:6.1f} s  job {submission.job_id} {line}")
        if now.settled:
            return
        time.sleep(interval_s)


def _tail(run_dir: Path) -> threading.Thread:
    def show() -> None:
        for line in read_logs(run_dir, follow=True):
            sys.stderr.write(f"{line}\n")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    return thread


def _interrupted(submission: Submission, shell: Shell, run_id: str) -> None:
    """Lets a Slurm job go on, unless Ctrl-C comes again at once; ends a local run.

    Raises:
        Detached: the job goes on.
    """
    if submission.kind == "local":
        say("interrupted: ending the run")
        cancel(submission, shell)
        return
    say(f"\n{come_back(run_id)}\nCtrl-C again within {SECOND_CTRL_C_S:.0f} s ends the job")
    try:
        time.sleep(SECOND_CTRL_C_S)
    except KeyboardInterrupt:
        say("ending the job")
        cancel(submission, shell)
        _until(lambda: current_state(submission, shell).settled)
        return
    raise Detached


def _until(done: Callable[[], bool], timeout_s: float = 30) -> None:
    limit = time.monotonic() + timeout_s
    while not done() and time.monotonic() < limit:
        time.sleep(0.5)
