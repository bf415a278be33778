"""From what a user names on the command line (a run, a folder, log files, `-`) to its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.explain import explained
from cloudai_run.metrics.job_end import job_words
from cloudai_run.metrics.parse import STDIN, parse_files, parse_run
from cloudai_run.metrics.report import Report
from cloudai_run.metrics.report_build import build_report, shape_of
from cloudai_run.metrics.throughput import RunShape
from cloudai_run.run_folders import RunFolder, find_run

if TYPE_CHECKING:
    from cloudai_run.executors.outcome import Outcome
    from cloudai_run.executors.stage_records import StageRun

CONFIG_FILE = "config.yaml"
STAGES_FILE = "stages.jsonl"
# What the executors call the job's script; importing it from them would import NeMo-Run.
SCRIPT_FILES = ("sbatch.sh", "local.sh")


class NoSteps(UserError):
    """A run that this tool launched left nothing to report; the text says how its job ended."""


def load_report(names: Sequence[str], *, window: str | None = None, shape: RunShape | None = None) -> Report:
    """Returns the report of a run, or of log files that this tool need not have launched.

    Args:
        names: one run (id, prefix, `latest` or folder), or files of one run, or `-`.
        window: `FIRST:LAST` in place of the format's rule.
        shape: what is given by hand for logs that do not say it.

    Raises:
        NoSteps: the run left no log that is known.
        UserError: nothing of that name, no known log, or a window that is not of its form.
    """
    paths = [Path(name) for name in names]
    files = all(name == STDIN or path.is_file() for name, path in zip(names, paths, strict=True))
    foreign = len(names) == 1 and paths[0].is_dir() and not (paths[0] / "run.json").is_file()
    if not files and not foreign and len(names) == 1:
        return run_report(find_run(names[0]), window=window, shape=shape)
    if foreign and (paths[0] / STAGES_FILE).is_file():
        # Launched by our executors from Python: all is there but the record.
        run = RunFolder(run_id=paths[0].resolve().name, path=paths[0], record={})
        return run_report(run, window=window, shape=shape)
    missing = [name for name, path in zip(names, paths, strict=True) if name != STDIN and not path.exists()]
    if missing:
        raise UserError(f"{missing[0]}: no such file\n  several names are taken as the log files of one run")
    first = "<stdin>" if names[0] == STDIN else (paths[0].name or str(paths[0].resolve()))
    label = first if len(names) == 1 else f"{first} and {len(names) - 1} more"
    shape = shape_of({}, shape)
    return build_report(
        {"log": parse_files(paths)}, label=label, facts=RunFacts(record={}), shape=shape, window=window
    )


def run_report(run: RunFolder, *, window: str | None = None, shape: RunShape | None = None) -> Report:
    """Returns the report of a run that this tool launched.

    Raises:
        NoSteps: its folder holds no known log; says how the job stands.
        UserError: the window is not of its form.
    """
    from cloudai_run.executors.stage_records import parse_stages

    note = _fetch(run)
    text = _read_text(run.path / STAGES_FILE)
    runs = parse_stages(text)
    job = _job(run, runs)
    try:
        stages = None if run.record else list(dict.fromkeys(stage.stage for stage in runs))
        logs = parse_run(run.path, stages=stages)
    except UserError as error:
        raise NoSteps(_nothing(run, job, note, error)) from error
    config = _read_yaml(run.path / CONFIG_FILE)
    return build_report(
        {name: explained(log, config) for name, log in logs.items()},
        label=run.run_id,
        facts=RunFacts(record=run.record, config=config, nodes=_nodes(runs)),
        shape=shape_of(run.record, shape),
        window=window,
        job=job,
        stage_runs=runs,
        stage_records=_events(text),
        run_dir=run.path,
        script=next((found for name in SCRIPT_FILES if (found := _read_text(run.path / name))), None),
        note=note,
    )


def _fetch(run: RunFolder) -> str | None:
    """Brings the logs of a job behind SSH here; returns what to say where that failed."""
    from cloudai_run.executors.errors import ExecutorError
    from cloudai_run.executors.fetch import fetch_run

    try:
        fetch_run(run.path)
    except ExecutorError as error:
        return f"the logs here may be old: {str(error).splitlines()[0]}"
    return None


def _job(run: RunFolder, runs: Sequence[StageRun]) -> Outcome | None:
    """How the job ended; a folder without its submission (a copy) is read by its stages alone."""
    from cloudai_run.executors.jobs import outcome
    from cloudai_run.executors.outcome import merge
    from cloudai_run.executors.submission import SUBMISSION_FILE

    if (run.path / SUBMISSION_FILE).is_file():
        return outcome(run.path)
    stages = run.record.get("stages")
    names = [
        str(stage.get("name"))
        for stage in (stages if isinstance(stages, Sequence) else ())
        if isinstance(stage, Mapping)
    ]
    return merge((), "stages", runs, names) if runs else None


def _nothing(run: RunFolder, job: Outcome | None, note: str | None, error: UserError) -> str:
    lines = [f"run {run.run_id} has no steps to report"]
    if job is None:
        lines.append(f"  it was not submitted, or its folder is not whole: {run.path}")
        return "\n".join(lines)
    lines += [f"  {line.strip()}" for line in job_words(job).splitlines()]
    lines += [f"  {note}"] if note else []
    if job.state.succeeded:
        lines += [f"  {line.strip()}" for line in str(error).splitlines()[:2]]
    return "\n".join(lines)


def _read_text(path: Path) -> str:
    """The text of a small file of the run folder; empty if it is not there."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _events(text: str) -> list[Mapping[str, object]]:
    """Returns the events of stages.jsonl; a line that was cut off (a full disk) is left out."""
    events: list[Mapping[str, object]] = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _nodes(runs: Sequence[StageRun]) -> tuple[str, ...]:
    """Returns the nodes of the last stage that names some."""
    return next((run.nodes for run in reversed(runs) if run.nodes), ())


def _read_yaml(path: Path) -> object:
    if not path.is_file():
        return None
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))
