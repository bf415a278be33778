"""`cloudai-run list` and `cloudai-run show`: what there is to run, and every parameter of it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cloudai_run import config_file
from cloudai_run.frameworks import framework_of


def list_all(
    every: Annotated[bool, typer.Option("--all", help="NeMo's other recipes too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Name the recipes and the executors, one line each.

    Example: cloudai-run list
    """
    from cloudai_run.recipes import catalogue

    settings = config_file.load()
    if as_json:
        recipes = [{"name": name, **entry} for name, entry in catalogue.descriptions(every).items()]
        executors = [
            {"name": spec.name, "kind": spec.kind, "default": spec.name == settings.default_executor}
            for spec in settings.executors.values()
        ]
        typer.echo(json.dumps({"recipes": recipes, "executors": executors}, indent=2))
        return
    typer.echo("recipes (cloudai-run pretrain --factory NAME)")
    names = catalogue.descriptions(every)
    width = max(map(len, names))
    for name, entry in names.items():
        typer.echo(f"  {name:<{width}}  {entry['framework']:<6} {entry['description']}")
    if not every:
        typer.echo("  NeMo's other recipes: cloudai-run list --all")
    typer.echo("\nexecutors (run.executor=NAME)")
    for spec in settings.executors.values():
        default = "  [default]" if spec.name == settings.default_executor else ""
        typer.echo(f"  {spec.name:<{width}}  {spec.description()}{default}")


def show(
    recipe: Annotated[str, typer.Argument(help="The recipe's name: cloudai-run list")],
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A part of it: trainer.strategy")] = "",
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="Overrides to apply before showing.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show parameters at their defaults in nested nodes too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print a recipe's parameters: value, type, default, and whether the recipe set them.

    Example: cloudai-run show llama3_8b trainer
    """
    from cloudai_run.show import rows_of, text_of

    words = list(overrides or ())
    if "=" in path:
        words, path = [path, *words], ""
    rows = rows_of(framework_of(recipe), path, words, every=every)
    typer.echo(
        json.dumps([row.as_json() for row in rows], indent=2) if as_json else text_of(recipe, path, rows)
    )
