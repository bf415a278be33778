"""What Slurm's commands print, as data: sbatch's job id, and a job's attempts as the others tell of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.states import JobState, job_state

#: One line an allocation; -D shows the attempts before a requeue too, which plain sacct hides.
SACCT_FIELDS = "JobIDRaw,State,ExitCode,NodeList,Reason,Submit"
#: How far apart the clocks of the login node and of the controller may be.
CLOCK_SKEW_S = 120.0
_EXIT_CODE = re.compile(r"(\d+):(\d+)")
_JOB_ID = re.compile(r"(\d+)(?:;(\S+))?")
_LOST_DEPENDENCY = "a job that it depends on did not succeed"
_NO_NODES = ("", "None assigned", "(null)", "None")


@dataclass(frozen=True)
class Attempt:
    """One run of a job: a job that Slurm requeues has several.

    Attributes:
        state: how it stands.
        exit_code: the batch script's; None while it runs or when Slurm does not say.
        signal: the signal that ended the script, 0 for none.
        nodes: in Slurm's form (`node[1-8]`), "" if none was given yet.
        reason: Slurm's reason for a pending or failed job, "" if it does not say.
        restarts: how often Slurm requeued the job before this attempt; None if the source does not say.
    """

    state: JobState
    exit_code: int | None = None
    signal: int = 0
    nodes: str = ""
    reason: str = ""
    restarts: int | None = None


def parse_job_id(stdout: str) -> tuple[str, str | None]:
    """The job id, and the cluster if named, from what sbatch printed.

    Knows `123`, `123;cluster`, `Submitted batch job 123` and `Submitted batch job 123 on cluster NAME`, with
    lines of warnings before or after.

    Raises:
        ExecutorError: no line of it is a job id.
    """
    for line in reversed(stdout.splitlines()):
        line = line.strip()
        submitted = re.fullmatch(r"Submitted batch job (\d+)(?: on cluster (\S+))?", line)
        match = submitted or _JOB_ID.fullmatch(line)
        if match:
            return match[1], match[2]
    raise ExecutorError(f"sbatch named no job id; it printed: {stdout.strip()[:300]!r}")


def _exit_code(text: str, state: JobState) -> tuple[int | None, int]:
    match = _EXIT_CODE.fullmatch(text.strip())
    if match is None or not state.ended:
        return None, 0
    return int(match[1]), int(match[2])


def _nodes(text: str) -> str:
    return "" if text in _NO_NODES else text


def parse_sacct(stdout: str, job_id: str, submitted_unix_s: float = 0.0) -> tuple[Attempt, ...]:
    """The attempts of a job, first to last, from `sacct -D -X -P -n --format=SACCT_FIELDS -j ID`.

    Lines of another job, and lines that are no record (warnings), are passed over; so are older jobs of the same id,
    which a controller that lost its state gives again.

    Args:
        stdout: of sacct with SLURM_TIME_FORMAT=%s.
        job_id: Slurm's.
        submitted_unix_s: when the job was submitted.
    """
    attempts: list[Attempt] = []
    for line in stdout.splitlines():
        fields = line.split("|")
        if len(fields) != len(SACCT_FIELDS.split(",")) or fields[0] != job_id:
            continue
        if fields[5].isdigit() and int(fields[5]) < submitted_unix_s - CLOCK_SKEW_S:
            continue
        state = job_state(fields[1])
        code, signal = _exit_code(fields[2], state)
        nodes = _nodes(fields[3])
        # sacct's reason is why a job last waited: no reason for anything once it ran, or once a person ended it
        # ("CANCELLED by 1000").
        reason = _reason(fields[4]) if state is JobState.PENDING else ""
        if fields[1] == "CANCELLED" and not nodes and fields[4] in ("Dependency", "DependencyNeverSatisfied"):
            reason = _LOST_DEPENDENCY
        attempts.append(Attempt(state, code, signal, nodes, reason, restarts=len(attempts)))
    return tuple(attempts)


def _reason(text: str) -> str:
    word = text.strip()
    if word == "DependencyNeverSatisfied":
        return _LOST_DEPENDENCY
    return "" if word == "None" else word


def parse_scontrol(stdout: str, job_id: str, job_name: str) -> Attempt | None:
    """A job's newest attempt from `scontrol -o show job ID`; None if the text does not tell of it."""
    for line in stdout.splitlines():
        fields = _scontrol_fields(line)
        if (fields.get("JobId"), fields.get("JobName")) != (job_id, job_name):
            continue
        state = job_state(fields.get("JobState", ""))
        code, signal = _exit_code(fields.get("ExitCode", ""), state)
        restarts = fields.get("Restarts", "")
        return Attempt(
            state,
            code,
            signal,
            _nodes(fields.get("NodeList", "")),
            _reason(fields.get("Reason", "")),
            int(restarts) if restarts.isdigit() else None,
        )
    return None


def _scontrol_fields(line: str) -> Mapping[str, str]:
    """The `Name=value` words of a line; the first of a name counts, as a comment may hold more."""
    fields: dict[str, str] = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            fields.setdefault(name, value)
    return fields


def parse_squeue(stdout: str, job_id: str) -> Attempt | None:
    """A job's newest attempt from `squeue -h -t all -o '%A|%T|%N|%r' -j ID`; None if it is not told of."""
    for line in stdout.splitlines():
        fields = line.split("|")
        if len(fields) == 4 and fields[0].strip() == job_id:
            return Attempt(
                job_state(fields[1]),
                nodes=_nodes(fields[2].strip()),
                reason=_reason(fields[3]),
            )
    return None
