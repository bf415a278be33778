"""From what a user names on the command line (a run, a folder, log files, `-`) to its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.parse import STDIN, parse_files, parse_run
from cloudai_run.metrics.report import Report, build_report, shape_of
from cloudai_run.metrics.throughput import RunShape
from cloudai_run.run_folders import RunFolder, find_run

CONFIG_FILE = "config.yaml"
STAGES_FILE = "stages.jsonl"


def load_report(names: Sequence[str], *, window: str | None = None, shape: RunShape | None = None) -> Report:
    """Returns the report of a run, or of log files that this tool need not have launched.

    Args:
        names: one run (id, prefix, `latest` or folder), or files of one run, or `-`.
        window: `FIRST:LAST` in place of the format's rule.
        shape: what is given by hand for logs that do not say it.

    Raises:
        UserError: nothing of that name, no known log, or a window that is not of its form.
    """
    paths = [Path(name) for name in names]
    files = all(name == STDIN or path.is_file() for name, path in zip(names, paths, strict=True))
    foreign = len(names) == 1 and paths[0].is_dir() and not (paths[0] / "run.json").is_file()
    if files or foreign or len(names) > 1:
        missing = [
            name for name, path in zip(names, paths, strict=True) if name != STDIN and not path.exists()
        ]
        if missing:
            raise UserError(
                f"{missing[0]}: no such file\n  several names are taken as the log files of one run"
            )
        log = parse_files(paths)
        facts = RunFacts(record={})
        label = paths[0].name if len(names) == 1 else f"{paths[0].name} and {len(names) - 1} more"
        return build_report({"log": log}, label=label, facts=facts, shape=shape_of({}, shape), window=window)
    return run_report(find_run(names[0]), window=window, shape=shape)


def run_report(run: RunFolder, *, window: str | None = None, shape: RunShape | None = None) -> Report:
    """Returns the report of a run that this tool launched.

    Raises:
        UserError: its folder holds no known log; says how the job stands.
    """
    records = read_stage_records(run.path)
    outcome = _outcome(run)
    try:
        logs = parse_run(run.path)
    except UserError as error:
        lines = str(error).splitlines()[:3]
        raise UserError(
            "\n".join([f"run {run.run_id} has no steps to report", f"  {outcome}", *lines])
        ) from error
    config = run.path / CONFIG_FILE
    facts = RunFacts(record=run.record, config=_read_yaml(config), nodes=_nodes(records))
    return build_report(
        logs,
        label=run.run_id,
        facts=facts,
        shape=shape_of(run.record, shape),
        window=window,
        exit_codes=_exit_codes(records),
        outcome=outcome,
        stage_records=records,
    )


def read_stage_records(run_dir: Path) -> list[Mapping[str, object]]:
    """Returns the events of stages.jsonl; a line that was cut off (a full disk) is left out."""
    path = run_dir / STAGES_FILE
    if not path.is_file():
        return []
    events: list[Mapping[str, object]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _outcome(run: RunFolder) -> str:
    """How the job ended, in words; asks the scheduler only where the launch left a submission."""
    from cloudai_run.executors.jobs import outcome

    return outcome(run.path).text()


def _exit_codes(records: Sequence[Mapping[str, object]]) -> dict[str, int]:
    codes: dict[str, int] = {}
    for event in records:
        name, code = event.get("stage"), event.get("exit_code")
        if event.get("event") == "end" and isinstance(name, str) and isinstance(code, int):
            codes[name] = code
    return codes


def _nodes(records: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    for event in reversed(records):
        nodes = event.get("nodes")
        if isinstance(nodes, list) and nodes:
            return tuple(map(str, nodes))
        if isinstance(nodes, str) and nodes:
            return (nodes,)
    return ()


def _read_yaml(path: Path) -> object:
    if not path.is_file():
        return None
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))
