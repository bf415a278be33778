"""The stages file that a job writes into its run folder, read back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: In the run folder: one JSON object a line.
STAGES_FILE = "stages.jsonl"


@dataclass(frozen=True)
class StageRun:
    """One stage in one attempt.

    Attributes:
        stage: its name.
        attempt: 0, or how often Slurm had requeued the job.
        nodes: where it ran.
        start_unix_s: by the clock of the job's first node; None if that record is lost.
        end_unix_s: None while it runs, or if the script did not live to write it.
        exit_code: None as long as `end_unix_s` is.
        reason: why it failed, as the script saw it; "" if it did not.
    """

    stage: str
    attempt: int = 0
    nodes: tuple[str, ...] = ()
    start_unix_s: float | None = None
    end_unix_s: float | None = None
    exit_code: int | None = None
    reason: str = ""


def parse_stages(text: str) -> tuple[StageRun, ...]:
    """The runs of stages in the order in which they started; torn and foreign lines are passed over."""
    runs: dict[tuple[int, str], StageRun] = {}
    for record in _records(text.splitlines()):
        stage, attempt = record.get("stage"), record.get("attempt", 0)
        if not isinstance(stage, str) or not isinstance(attempt, int):
            continue
        run = runs.get((attempt, stage), StageRun(stage, attempt))
        time_unix_s, code, nodes = record.get("time_unix_s"), record.get("exit_code"), record.get("nodes")
        time = float(time_unix_s) if isinstance(time_unix_s, int | float) else None
        if isinstance(nodes, list):
            run = replace(run, nodes=tuple(str(node) for node in nodes))
        if record.get("event") == "start":
            run = replace(run, start_unix_s=time)
        elif record.get("event") == "end":
            reason = record.get("reason")
            run = replace(
                run,
                end_unix_s=time,
                exit_code=code if isinstance(code, int) else None,
                reason=reason if isinstance(reason, str) else "",
            )
        runs[attempt, stage] = run
    return tuple(runs.values())


def _records(lines: Iterable[str]) -> Iterable[dict[str, object]]:
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:  # the disk was full, or the writer was killed
            continue
        if isinstance(record, dict):
            yield record


def of_attempt(runs: Iterable[StageRun], attempt: int) -> tuple[StageRun, ...]:
    """The runs of one attempt."""
    return tuple(run for run in runs if run.attempt == attempt)


def failed_run(runs: Iterable[StageRun]) -> StageRun | None:
    """The stage that a job ended in: the one with a non-zero exit code, else the last without an end."""
    runs = tuple(runs)
    for run in runs:
        if run.exit_code:
            return run
    open_runs = [run for run in runs if run.exit_code is None]
    return open_runs[-1] if open_runs else None
