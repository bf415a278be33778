"""The runs on this machine: where their folders are, and how a name on the command line finds one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.recipes.suggest import did_you_mean
from cloudai_run.record import RECORD_FILE


@dataclass(frozen=True)
class RunFolder:
    """A run's folder and what its run.json says.

    Attributes:
        run_id: NeMo-Run's experiment id.
        path: the task's folder, `$NEMORUN_HOME/experiments/TITLE/RUN_ID/TASK`.
        record: the content of run.json.
    """

    run_id: str
    path: Path
    record: Mapping[str, object]


def nemorun_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns NeMo-Run's home folder, as NeMo-Run itself finds it (without importing it)."""
    return Path(environ.get("NEMORUN_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".nemo_run")


def all_runs(home: Path | None = None) -> list[RunFolder]:
    """Returns every run that this project launched, oldest first."""
    found = (home or nemorun_home()).glob(f"experiments/*/*/*/{RECORD_FILE}")
    runs = [_read(path) for path in found]
    return sorted(runs, key=lambda run: (str(run.record.get("created_utc", "")), run.run_id))


def find_run(name: str, home: Path | None = None) -> RunFolder:
    """Returns the run that a name stands for: a folder, an id, a unique prefix of an id, or `latest`.

    Raises:
        UserError: nothing, or more than one run, has that name.
    """
    folder = Path(name)
    if (folder / RECORD_FILE).is_file():
        return _read(folder / RECORD_FILE)
    runs = all_runs(home)
    if not runs:
        where = (home or nemorun_home()) / "experiments"
        raise UserError(
            f"there are no runs yet in {where}\n  start one: cloudai-run pretrain --factory llama3_8b"
        )
    if name == "latest":
        return runs[-1]
    hits = [run for run in runs if run.run_id == name] or [run for run in runs if run.run_id.startswith(name)]
    if len(hits) == 1:
        return hits[0]
    if hits:
        shown = ", ".join(run.run_id for run in hits[-4:])
        raise UserError(f"{len(hits)} runs begin with {name!r}\n  the newest of them: {shown}")
    near = did_you_mean(name, [run.run_id for run in runs])
    hint = f"did you mean {near[0]}?" if near else f"the newest: {runs[-1].run_id}"
    raise UserError(f"there is no run {name!r}\n  {hint}\n  all of them: cloudai-run runs")


def _read(path: Path) -> RunFolder:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    return RunFolder(str(record.get("run_id", path.parent.parent.name)), path.parent, record)
