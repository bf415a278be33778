"""The states of a job, and the literal tables from Slurm's words to ours and from ours to NeMo-Run's."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands, in Slurm's spelling. A word that no table knows is UNKNOWN, never a guess."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"
    UNKNOWN = "UNKNOWN"

    def __str__(self) -> str:
        return self.value

    @property
    def ended(self) -> bool:
        """Whether the job will not change any more."""
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN)

    @property
    def succeeded(self) -> bool:
        return self is JobState.COMPLETED


#: Slurm's job states and state flags (squeue(1), sacct(1) of 22.05 to 25.05, read 2025-11).
SLURM_STATES: Mapping[str, JobState] = {
    "BOOT_FAIL": JobState.BOOT_FAIL,
    "CANCELLED": JobState.CANCELLED,
    "COMPLETED": JobState.COMPLETED,
    "COMPLETING": JobState.RUNNING,
    "CONFIGURING": JobState.PENDING,
    "DEADLINE": JobState.DEADLINE,
    "FAILED": JobState.FAILED,
    "LAUNCH_FAILED": JobState.FAILED,
    "NODE_FAIL": JobState.NODE_FAIL,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "PENDING": JobState.PENDING,
    "POWER_UP_NODE": JobState.PENDING,
    "PREEMPTED": JobState.PREEMPTED,
    "RECONFIG_FAIL": JobState.FAILED,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESIZING": JobState.RUNNING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "REVOKED": JobState.CANCELLED,
    "RUNNING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "SPECIAL_EXIT": JobState.PENDING,
    "STAGE_OUT": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "TIMEOUT": JobState.TIMEOUT,
}

#: torchx's AppState by name, for NeMo-Run's status and wait.
APP_STATES: Mapping[JobState, str] = {
    JobState.PENDING: "PENDING",
    JobState.RUNNING: "RUNNING",
    JobState.COMPLETED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
    JobState.TIMEOUT: "FAILED",
    JobState.NODE_FAIL: "FAILED",
    JobState.OUT_OF_MEMORY: "FAILED",
    JobState.BOOT_FAIL: "FAILED",
    JobState.DEADLINE: "FAILED",
    JobState.PREEMPTED: "FAILED",
    JobState.UNKNOWN: "UNKNOWN",
}


def job_state(word: str) -> JobState:
    """Slurm's word for a state (`CANCELLED by 1000`, `CANCELLED+`, `RUNNING`) as a JobState."""
    words = word.split()
    return SLURM_STATES.get(words[0].rstrip("+"), JobState.UNKNOWN) if words else JobState.UNKNOWN
