"""A job's logs as lines: of one stage or all, of one rank, whole or as they come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.log_files import LogFile, RunFiles, rank_line
from cloudai_run.executors.shell import Shell
from cloudai_run.executors.stage_records import StageRun
from cloudai_run.executors.submission import Submission

FOLLOW_INTERVAL_S = 0.5
#: What of a log's end is looked at for the cause of a failure.
_TAIL_BYTES = 64 * 1024
#: What Slurm writes into a rank's output when it ends the rank.
_SLURMS_OWN = re.compile(r"(slurmstepd|srun)(-[\w.-]+)?: ")
_CAUSE = re.compile(r"(?P<node>[\w.-]+): tasks? (?P<task>\d+)")


def follow_lines(
    submission: Submission,
    shell: Shell,
    ended: Callable[[], bool],
    stage: str | None = None,
    rank: int = 0,
) -> Iterator[str]:
    """The lines of one rank, stage after stage, each stage after a line that names it.

    Args:
        submission: of the job.
        shell: where its files are.
        ended: whether no more will come; asked before each look, so that nothing is missed.
        stage: None for every stage.
        rank: its lines are looked for in the logs of all nodes, but for rank 0, which has a log of its own.

    Yields:
        Lines without their line break.
    """
    files = RunFiles(submission, shell)
    offsets: dict[str, int] = {}
    pending: dict[str, bytes] = {}
    heading = ""
    while True:
        last = ended()
        for log in sorted(_wanted(files.logs(), stage, rank), key=lambda log: _order(log, submission)):
            data = files.read(log.path, offsets.get(log.path, 0))
            offsets[log.path] = offsets.get(log.path, 0) + len(data)
            whole, pending[log.path] = _whole_lines(pending.get(log.path, b"") + data, last)
            lines = list(_of_rank(whole, log, rank))
            title = f"==> stage {log.stage}, rank {rank}" + (
                f", attempt {log.attempt}" if log.attempt else ""
            )
            if lines and title != heading:
                heading = title
                yield heading
            yield from lines
        if last:
            return
        time.sleep(FOLLOW_INTERVAL_S)


def _wanted(logs: list[LogFile], stage: str | None, rank: int) -> list[LogFile]:
    own = any(log.name == f"rank-{rank}" for log in logs)
    return [
        log
        for log in logs
        if (stage is None or log.stage == stage)
        and (log.name == f"rank-{rank}" if own else log.name.startswith("node-"))
    ]


def _order(log: LogFile, submission: Submission) -> tuple[int, int, str]:
    names = submission.stages
    return log.attempt, names.index(log.stage) if log.stage in names else -1, log.path


def _whole_lines(data: bytes, last: bool) -> tuple[list[str], bytes]:
    text, newline, rest = data.rpartition(b"\n")
    if last and rest:
        text, rest = (text + newline + rest), b""
    lines = text.decode("utf-8", "replace").split("\n") if text or newline else []
    return [line.rstrip("\r") for line in lines], rest


def _of_rank(lines: list[str], log: LogFile, rank: int) -> Iterator[str]:
    if log.name.startswith("rank-"):
        yield from lines
        return
    for line in lines:
        labelled = rank_line(line)
        if labelled and labelled[0] == rank:
            yield labelled[1]


def failure_lines(
    submission: Submission, shell: Shell, run: StageRun | None
) -> tuple[str | None, str | None]:
    """The node on which a stage failed, and the last line that the rank that failed wrote there.

    Args:
        submission: of the job.
        shell: where its files are.
        run: the stage that failed; None if the job ended outside of a stage.
    """
    files = RunFiles(submission, shell)
    cause = _CAUSE.match(run.reason) if run else None
    node = cause["node"] if cause else None
    rank = int(cause["task"]) if cause else 0
    logs = [log for log in files.logs() if run and log.stage == run.stage and log.attempt == run.attempt]
    for log in logs:
        if log.name.startswith("node-") and (node is None or log.name.endswith(f"-{node}")):
            lines = files.read(log.path, -_TAIL_BYTES).decode("utf-8", "replace").splitlines()
            own = [labelled[1] for line in lines if (labelled := rank_line(line)) and labelled[0] == rank]
            told = [line for line in own if line.strip() and not _SLURMS_OWN.match(line)]
            if told:
                return node, told[-1]
    return node, None if logs else _last_output(files)


def _last_output(files: RunFiles) -> str | None:
    """The last line of the script's own output that is neither a record nor this project's word."""
    for path in reversed(files.outputs()):
        lines = files.read(path, -_TAIL_BYTES).decode("utf-8", "replace").splitlines()
        told = [line for line in lines if line.strip() and not line.startswith(("{", "cloudai-run: "))]
        told = [line for line in told if not _SLURMS_OWN.match(line)] or told
        if told:
            return told[-1]
    return None


def read_logs(
    run_dir: str | Path, stage: str | None = None, rank: int | None = None, follow: bool = False
) -> Iterator[str]:
    """The lines of a run's logs, for a person.

    Args:
        run_dir: NeMo-Run's folder of the task.
        stage: None for every stage, in the order in which they run.
        rank: None for rank 0.
        follow: goes on until the job ends.

    Raises:
        ExecutorError: nothing was submitted from the folder, or it has no such stage.
    """
    from cloudai_run.executors.jobs import current_state
    from cloudai_run.executors.submission import read_submission

    submission = read_submission(run_dir)
    if submission is None:
        raise ExecutorError(f"nothing was submitted from {run_dir}")
    shell = submission.shell()
    known = [*submission.stages, *(log.stage for log in RunFiles(submission, shell).logs())]
    if stage is not None and stage not in known:
        raise ExecutorError(f"the run has no stage {stage}\n  its stages: {', '.join(dict.fromkeys(known))}")
    ended = (lambda: current_state(submission, shell).settled) if follow else (lambda: True)
    return follow_lines(submission, shell, ended, stage, rank or 0)
