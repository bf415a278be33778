"""`cloudai-run runs`, `status`, `logs` and `cancel`: what was launched from here, from any later shell."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cloudai_run.run_folders import all_runs, find_run

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, a prefix of it, its folder, or latest.")
]


def runs(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many, the newest last.")] = 20,
) -> None:
    """List the runs on this machine, the newest last.

    Example: cloudai-run runs --number 5
    """
    found = all_runs()[-number:]
    if as_json:
        keys = ("recipe", "created_utc", "smoke", "num_nodes", "num_gpus_per_node")
        rows = [
            {"run_id": run.run_id, "path": str(run.path), **{k: run.record.get(k) for k in keys}}
            for run in found
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    if not found:
        typer.echo(
            "no runs yet; start one: cloudai-run pretrain --factory llama3_8b --smoke trainer.max_steps=5"
        )
        return
    width = max(len(run.run_id) for run in found)
    for run in found:
        record = run.record
        size = f"{record.get('num_nodes')} x {record.get('num_gpus_per_node')}"
        executor = record.get("executor")
        kind = executor.get("name") if isinstance(executor, dict) else ""
        mark = "  CPU smoke run" if record.get("smoke") else ""
        typer.echo(f"{run.run_id:<{width}}  {record.get('created_utc')}  {size:<8} {kind}{mark}")


def status(run: RunName, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """Say how a run stands: its state, the stage, and why it failed. Exits with 1 if it did.

    Example: cloudai-run status latest
    """
    from cloudai_run.executors.jobs import outcome

    found = find_run(run)
    now = outcome(found.path)
    if as_json:
        keys = (
            "exit_code",
            "signal",
            "stage",
            "node",
            "log_line",
            "attempt",
            "job_id",
            "source",
            "reason",
            "note",
        )
        payload = {
            "run_id": found.run_id,
            "state": str(now.state),
            **{key: getattr(now, key) for key in keys},
        }
        typer.echo(json.dumps(payload, indent=2))
    else:
        typer.echo(f"run {found.run_id}: {now.text()}")
        typer.echo(f"  folder {found.path}")
    return 1 if now.settled and not now.state.succeeded else 0


def logs(
    run: RunName,
    stage: Annotated[str | None, typer.Option(help="One stage only.")] = None,
    rank: Annotated[int, typer.Option(min=0, help="Whose lines.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
) -> None:
    """Print the log of one rank, stage after stage.

    Example: cloudai-run logs latest --rank 0
    """
    from cloudai_run.executors.logs import read_logs

    for line in read_logs(find_run(run).path, stage, rank, follow):
        typer.echo(line)


def cancel(run: RunName) -> None:
    """End a run that still goes on.

    Example: cloudai-run cancel latest
    """
    from cloudai_run.executors.jobs import cancel as cancel_job
    from cloudai_run.executors.jobs import outcome
    from cloudai_run.executors.submission import read_submission

    found = find_run(run)
    submission = read_submission(found.path)
    now = outcome(found.path)
    if submission is None or now.settled:
        typer.echo(f"run {found.run_id}: {now.text()}")
        return
    cancel_job(submission, submission.shell())
    typer.echo(f"run {found.run_id}: asked job {submission.job_id} to end")
