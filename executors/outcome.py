"""The truth about a job: Slurm's word and the stages file, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cloudai_run.executors.slurm_words import Attempt
from cloudai_run.executors.stage_records import StageRun, failed_run, of_attempt
from cloudai_run.executors.states import JobState


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job stands, or how it ended.

    Attributes:
        state: Slurm's word wherever Slurm has one.
        exit_code: the job's; None while it runs or if nobody knows it.
        signal: that ended the job's script, 0 for none.
        stage: the stage that failed, or that runs; None if there is none.
        node: where it failed, if a log names it.
        log_line: the last line that the failed stage wrote, if any.
        attempt: 0, or how often Slurm requeued the job.
        attempts: states of the attempts before this one.
        job_id: Slurm's, or torchx's for a local run; None if nothing was submitted.
        source: who said the state: `sacct`, `scontrol`, `squeue`, `stages` (the stages file) or `local`.
        reason: why the stage failed, as the script saw it; else Slurm's, for a job that did not start.
        note: where the sources disagree, or what is not known.
        lost: nobody will ever tell how it ended: Slurm forgot the job, and the stages file has no end.
    """

    state: JobState
    exit_code: int | None = None
    signal: int = 0
    stage: str | None = None
    node: str | None = None
    log_line: str | None = None
    attempt: int = 0
    attempts: tuple[JobState, ...] = ()
    job_id: str | None = None
    source: str = "stages"
    reason: str = ""
    note: str | None = None
    lost: bool = False

    @property
    def settled(self) -> bool:
        """Whether waiting any longer tells nothing new."""
        return self.state.ended or self.lost

    def text(self) -> str:
        """One to three lines for a person: state, stage and exit code first."""
        line = f"job {self.job_id} {self.state}" if self.job_id else str(self.state)
        if self.state.ended and not self.state.succeeded:
            if self.stage:
                line += f" in stage {self.stage}"
            if self.exit_code:
                line += f" with exit code {self.exit_code}"
            if self.node:
                line += f" on {self.node}"
        elif self.stage:
            line += f" (stage {self.stage})"
        if self.reason and not self.state.succeeded:
            line += f": {self.reason}"
        more = [f"last line of its log: {self.log_line}" if self.log_line else "", self.note or ""]
        return "\n  ".join([line, *(text for text in more if text)])


class JobFailedError(RuntimeError):
    """A job did not succeed; raised when the `with` block of an Experiment that waited for it ends."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        super().__init__("\n".join(outcome.text() for outcome in outcomes))
        self.outcomes = tuple(outcomes)


def merge(
    attempts: Sequence[Attempt], source: str, runs: Sequence[StageRun], stages: Sequence[str]
) -> Outcome:
    """Puts what Slurm and the stages file say together.

    Args:
        attempts: Slurm's, first to last; empty if Slurm does not know the job.
        source: of the attempts.
        runs: of the stages file.
        stages: names of the stages that the job was to run.
    """
    if not attempts:
        return _from_stages(runs, stages)
    last = attempts[-1]
    restarts = last.restarts if last.restarts is not None else max((run.attempt for run in runs), default=0)
    own = of_attempt(runs, restarts)
    outcome = Outcome(
        state=last.state,
        exit_code=last.exit_code,
        signal=last.signal,
        attempt=restarts,
        attempts=tuple(attempt.state for attempt in attempts[:-1]),
        source=source,
        reason=last.reason,
    )
    bad = failed_run(own)
    if last.state is JobState.PENDING:
        # sacct hears of a start late: the job's own record of it is proof.
        return replace(outcome, state=JobState.RUNNING, stage=bad.stage if bad else None) if own else outcome
    if last.state is JobState.UNKNOWN:
        known = _from_stages(own, stages)
        return known if known.state.ended else replace(outcome, stage=bad.stage if bad else None)
    if last.state.succeeded:
        return replace(outcome, note=_complete_note(own, stages))
    note = _node_fail_note(own) if last.state is JobState.NODE_FAIL else None
    return replace(
        outcome,
        exit_code=_exit_code(last, bad),
        stage=bad.stage if bad else None,
        reason=(bad.reason if bad else "") or outcome.reason,
        note=note,
    )


def _exit_code(last: Attempt, bad: StageRun | None) -> int | None:
    """The script's exit code: sacct prints those from 128 on less 128, and 0 for one that it has not heard of."""
    stages = bad.exit_code if bad is not None and bad.exit_code else None
    if stages and last.state is JobState.FAILED and not last.signal and last.exit_code in (0, stages - 128):
        return stages
    return last.exit_code


def _from_stages(runs: Sequence[StageRun], stages: Sequence[str]) -> Outcome:
    """What the stages file alone tells: an end only if it is written there."""
    attempt = max((run.attempt for run in runs), default=0)
    own = of_attempt(runs, attempt)
    bad = failed_run(own)
    if bad is not None and bad.exit_code:
        return Outcome(
            state=JobState.FAILED,
            exit_code=bad.exit_code,
            stage=bad.stage,
            reason=bad.reason,
            attempt=attempt,
        )
    if stages and {run.stage for run in own if run.exit_code == 0} >= set(stages):
        return Outcome(state=JobState.COMPLETED, exit_code=0, attempt=attempt)
    note = (
        f"the stages file has no end of stage {bad.stage}"
        if bad
        else "the stages file does not tell of an end"
    )
    return Outcome(state=JobState.UNKNOWN, stage=bad.stage if bad else None, attempt=attempt, note=note)


def _complete_note(runs: Sequence[StageRun], stages: Sequence[str]) -> str | None:
    wrong = [run.stage for run in runs if run.exit_code]
    if wrong:
        return f"Slurm says COMPLETED; the stages file says that stage {wrong[0]} failed"
    ended = {run.stage for run in runs if run.exit_code == 0}
    missing = [stage for stage in stages if stage not in ended]
    return f"Slurm says COMPLETED; the stages file has no end of stage {missing[0]}" if missing else None


def _node_fail_note(runs: Sequence[StageRun]) -> str | None:
    """A script whose node lost its slurmd lives on, and writes an end of its own."""
    if not runs or runs[-1].exit_code is None:
        return None
    return (
        f"Slurm lost a node, and that counts; the script lived on and wrote that stage {runs[-1].stage} "
        f"ended with exit code {runs[-1].exit_code}"
    )
