"""`cloudai-run doctor`: whether a launch from here would work."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from cloudai_run import config_file


def doctor(
    executor: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXECUTOR]", help="An executor's name (default: the one a launch would use)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Say whether a launch from here would work, a line a check, with what to do.

    Example: cloudai-run doctor local
    """
    from cloudai_run.doctor import examine

    settings = config_file.load()
    spec = settings.executor(executor or settings.default_executor or "local")
    checks = examine(spec)
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        payload = {
            "executor": spec.name,
            "ok": not failed,
            "checks": [dataclasses.asdict(check) for check in checks],
        }
        typer.echo(json.dumps(payload, indent=2))
        return int(failed)
    typer.echo(f"executor {spec.name} ({spec.kind}, {spec.source})")
    width = max(len(check.name) for check in checks)
    for check in checks:
        typer.echo(f"  {check.status:<4}  {check.name:<{width}}  {check.detail}")
        if check.advice:
            typer.echo(f"        {'':<{width}}  -> {check.advice}")
    typer.echo("a launch would fail" if failed else "a launch should work")
    return int(failed)
