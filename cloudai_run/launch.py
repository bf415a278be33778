"""From what would run to a run: NeMo-Run's Experiment, the run folder, and the truth about how it ended."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cloudai_run import machine
from cloudai_run.errors import RunFailed, UserError
from cloudai_run.executor_fields import build
from cloudai_run.executors.outcome import Outcome
from cloudai_run.record import Json, RunRecord
from cloudai_run.resolve import Resolved
from cloudai_run.run_folders import find_run, nemorun_home
from cloudai_run.waiting import Detached, come_back, say, wait

if TYPE_CHECKING:
    from nemo_run import Experiment
    from nemo_run.run.job import Job

CONFIG_FILE = "config.yaml"
OVERRIDES_FILE = "overrides.txt"


def new_run_id(title: str, now: datetime.datetime, home: Path) -> str:
    """Returns an experiment id: the title and the time, readable and unique on this machine.

    NeMo-Run finds an experiment's folder by what stands before the last underscore.
    """
    stem = f"{title}_{now:%Y%m%dT%H%M%SZ}"
    taken = home / "experiments" / title
    return next(
        name
        for count in range(1, 10_000)
        if not (taken / (name := stem if count == 1 else f"{stem}-{count}")).exists()
    )


def script_of(resolved: Resolved) -> str:
    """Returns the script that would run, byte for byte; leaves no file behind."""
    home = nemorun_home()
    before = {folder for folder in (home, *_folders(home, resolved.name)) if folder.exists()}
    try:
        with experiment(resolved.name, new_run_id(resolved.name, _now(), home)) as exp:
            job = add_task(exp, resolved)
            exp.dryrun(log=False)
            assert job._dryrun_info is not None, "NeMo-Run's dry run leaves its request"
            return job._dryrun_info.request.script
    finally:
        for folder in reversed((home, *_folders(home, resolved.name))):
            if folder not in before and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _folders(home: Path, title: str) -> tuple[Path, ...]:
    return home / "experiments", home / "experiments" / title


def command_line(resolved: Resolved) -> str:
    """Returns the command that each rank runs, quoted for a shell."""
    from cloudai_run.executors.quoting import shell_word

    return " ".join(map(shell_word, resolved.framework.command(resolved.config, resolved.layout)))


def experiment(title: str, run_id: str, *, verbose: bool = False) -> Experiment:
    """Returns a quiet NeMo-Run Experiment: this command speaks for it."""
    import nemo_run as run

    # An Experiment asks for the known schedulers when it is made.
    import cloudai_run.executors.registry  # noqa: F401

    return run.Experiment(
        title,
        id=run_id,
        log_level="INFO" if verbose else "WARN",
        clean_mode=not verbose,
        enable_goodbye_message=False,
        skip_status_at_exit=True,
    )


def add_task(exp: Experiment, resolved: Resolved) -> Job:
    """Adds the run's one task and returns NeMo-Run's job of it."""
    from nemo_run.run.job import Job

    exp.add(
        resolved.framework.partial(resolved.config), executor=build(resolved.executor), name=resolved.name
    )
    job = exp.jobs[-1]
    assert isinstance(job, Job)
    return job


def launch(
    resolved: Resolved,
    *,
    detach: bool = False,
    tail_logs: bool = False,
    as_json: bool = False,
    verbose: bool = False,
) -> int:
    """Runs what was resolved and reports on it.

    Returns:
        The exit code: 0, or 1 if the run failed or its numbers are invalid.

    Raises:
        RunFailed: the job failed; says its stage, exit code, node and the log's line.
    """
    run_id = new_run_id(resolved.name, _now(), nemorun_home())
    with experiment(resolved.name, run_id, verbose=verbose) as exp:
        job = add_task(exp, resolved)
        run_dir = Path(job.executor.job_dir)
        _record_when_prepared(exp, lambda: write_run_folder(resolved, run_id, run_dir))
        say(f"run {run_id} on executor {resolved.executor.name}: {run_dir}")
        exp.run(detach=True)
        if detach and resolved.executor.kind == "slurm":
            say(come_back(run_id))
            return 0
        try:
            ended = wait(run_dir, run_id, tail_logs=tail_logs)
        except Detached:
            return 0
    return finish(run_id, run_dir, ended, as_json=as_json)


def _record_when_prepared(exp: Experiment, record: Callable[[], None]) -> None:
    """Writes the record after NeMo-Run made the run folder and before it submits: no run is without one."""
    prepare = exp._prepare

    def prepare_and_record(exist_ok: bool = False) -> None:
        prepare(exist_ok=exist_ok)
        record()

    exp._prepare = prepare_and_record


def finish(run_id: str, run_dir: Path, ended: Outcome, *, as_json: bool) -> int:
    """Writes report.json, prints the report, and returns the exit code.

    Raises:
        RunFailed: the job did not succeed; its numbers, if there are any, are printed first.
    """
    from cloudai_run.metrics.load import run_report
    from cloudai_run.metrics.report_file import save_report
    from cloudai_run.metrics.report_json import report_json
    from cloudai_run.metrics.report_text import report_text

    try:
        report = run_report(find_run(str(run_dir)))
    except UserError as error:
        raise RunFailed(str(error) if ended.state.succeeded else _failure(ended, run_id)) from error
    save_report(report, run_dir)
    typer.echo(json.dumps(report_json(report), indent=2) if as_json else report_text(report), nl=as_json)
    if not ended.state.succeeded:
        raise RunFailed(_failure(ended, run_id))
    return 1 if report.status == "invalid" else 0


def _failure(ended: Outcome, run_id: str) -> str:
    return f"{ended.text()}\n  log: cloudai-run logs {run_id}"


def write_run_folder(resolved: Resolved, run_id: str, run_dir: Path) -> None:
    """Writes what a reader needs to believe and repeat the run; nothing of it is a secret."""
    from cloudai_run.recipes.serialize import to_yaml

    run_dir.mkdir(parents=True, exist_ok=True)
    record_of(resolved, run_id).write(run_dir)
    (run_dir / CONFIG_FILE).write_text(to_yaml(resolved.framework.partial(resolved.config)), encoding="utf-8")
    (run_dir / OVERRIDES_FILE).write_text(
        "".join(f"{word}\n" for word in resolved.overrides), encoding="utf-8"
    )


def record_of(resolved: Resolved, run_id: str) -> RunRecord:
    """Returns the record of a run about to be launched."""
    executor, layout = resolved.executor, resolved.layout
    facts = resolved.framework.facts(resolved.config)
    return RunRecord(
        run_id=run_id,
        name=resolved.name,
        recipe=resolved.framework.recipe,
        framework=resolved.framework.name,
        created_utc=_now().isoformat(timespec="seconds"),
        smoke=resolved.smoke,
        num_nodes=layout.num_nodes,
        num_gpus_per_node=layout.num_gpus_per_node,
        overrides=resolved.overrides,
        command=resolved.framework.command(resolved.config, layout),
        versions=machine.versions(),
        schema_versions=resolved.framework.versions,
        executor={"name": executor.name, "kind": executor.kind, **_plain(executor.fields)},
        resets=resolved.resets,
        **{**facts, "gpu_model": _gpu_model(resolved, facts), "container_image": _image(resolved, facts)},
    )


def _gpu_model(resolved: Resolved, facts: Mapping[str, object]) -> str | None:
    """The GPU as the settings, this machine's driver or the recipe name it; a smoke run has none."""
    if resolved.smoke:
        return None
    here = machine.gpu_model() if resolved.executor.kind == "local" else None
    named = resolved.executor.fields.get("gpu_model") or here or facts.get("gpu_model")
    return None if named is None else str(named)


def _image(resolved: Resolved, facts: Mapping[str, object]) -> str | None:
    image = resolved.executor.fields.get("container_image") or facts.get("container_image")
    return None if image is None else str(image)


def _plain(fields: Mapping[str, object]) -> dict[str, Json]:
    """The executor's fields as JSON; the environment's values stay, secrets are only ever names."""
    return {name: _json(value) for name, value in fields.items()}


def _json(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
