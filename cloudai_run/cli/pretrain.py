"""`cloudai-run pretrain`: check a configuration on the login node, then run it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloudai_run import config_file, machine
from cloudai_run.errors import UserError

if TYPE_CHECKING:
    from cloudai_run.resolve import Resolved

Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the whole configuration there and stop.")
]


def _complete_factory(incomplete: str) -> list[str]:
    from cloudai_run.recipes.catalogue import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


def _complete_override(context: typer.Context, incomplete: str) -> list[str]:
    from cloudai_run.overrides import complete

    if incomplete.startswith("run.executor="):
        return [
            f"run.executor={name}"
            for name in config_file.load().executors
            if name.startswith(incomplete[13:])
        ]
    return complete(incomplete, str(context.params.get("factory") or ""))


def pretrain(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH=VALUE]...",
            help="trainer.max_steps=5, run.executor=slurm, run.env.NAME=text ...",
            autocompletion=_complete_override,
        ),
    ] = None,
    factory: Annotated[
        str | None,
        typer.Option(
            "--factory", "-f", help="The recipe's name: cloudai-run list", autocompletion=_complete_factory
        ),
    ] = None,
    yaml: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A whole configuration (YAML, JSON or TOML), instead of --factory."
        ),
    ] = None,
    to_yaml: Out = None,
    to_json: Out = None,
    to_toml: Out = None,
    dryrun: Annotated[bool, typer.Option("--dryrun", help="Print what would run; touch nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before submitting.")] = False,
    name: Annotated[str | None, typer.Option(help="The run's name (default: the recipe's).")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the job is submitted.")] = False,
    tail_logs: Annotated[bool, typer.Option("--tail-logs", help="Show rank 0's log while waiting.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Shrink the model and run on the CPU: not a benchmark.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Turn the rules of the model into warnings.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what NeMo-Run says too.")] = False,
) -> int:
    """Check a recipe and its overrides here, then run it: on local GPUs, on Slurm, or shrunk on the CPU.

    Example: cloudai-run pretrain --factory llama3_8b --smoke trainer.max_steps=5
    """
    from cloudai_run.resolve import SMOKE_WORDS, Request, read_config, resolve

    if factory and yaml:
        raise UserError("give --factory or --yaml, not both")
    request = Request(
        words=tuple(overrides or ()),
        factory=factory,
        config=read_config(yaml) if yaml else None,
        smoke=smoke,
        force=force,
        name=name,
        dryrun=dryrun or any((to_yaml, to_json, to_toml)),
    )
    resolved = resolve(request, config_file.load(), machine.gpu_count())
    if resolved.smoke:
        typer.echo(SMOKE_WORDS, err=True)
    for note in resolved.notes:
        typer.echo(note, err=True)
    exports = {"yaml": to_yaml, "json": to_json, "toml": to_toml}
    if any(exports.values()):
        return _export(resolved, {kind: path for kind, path in exports.items() if path})
    if dryrun:
        return _dryrun(resolved, as_json)
    from cloudai_run.launch import launch

    if not _may_go_on(resolved, yes):
        return 1
    return launch(resolved, detach=detach, tail_logs=tail_logs, as_json=as_json, verbose=verbose)


def _export(resolved: Resolved, exports: dict[str, Path]) -> int:
    from cloudai_run.recipes import serialize

    writers = {"yaml": serialize.to_yaml, "json": serialize.to_json, "toml": serialize.to_toml}
    partial = resolved.framework.partial(resolved.config)
    for kind, path in exports.items():
        text = writers[kind](partial)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
        typer.echo(f"wrote {path}")
    return 0


def _dryrun(resolved: Resolved, as_json: bool) -> int:
    from cloudai_run.launch import command_line, script_of

    script = script_of(resolved)
    if as_json:
        layout = resolved.layout
        payload = {
            "executor": resolved.executor.name,
            "kind": resolved.executor.kind,
            "smoke": resolved.smoke,
            "num_nodes": layout.num_nodes,
            "num_gpus_per_node": layout.num_gpus_per_node,
            "command": list(resolved.framework.command(resolved.config, layout)),
            "script": script,
        }
        typer.echo(json.dumps(payload, indent=2))
        return 0
    typer.echo(f"would run on executor {resolved.executor.name}: {command_line(resolved)}", err=True)
    typer.echo(script, nl=False)
    return 0


def _may_go_on(resolved: Resolved, yes: bool) -> bool:
    """Asks a person at a terminal before a job takes nodes; scripts are not asked."""
    if yes or resolved.executor.kind != "slurm" or not sys.stdin.isatty():
        return True
    layout = resolved.layout
    nodes = "1 node" if layout.num_nodes == 1 else f"{layout.num_nodes} nodes"
    return typer.confirm(
        f"Submit {resolved.name} to {resolved.executor.name} ({nodes} x {layout.num_gpus_per_node})?"
    )
