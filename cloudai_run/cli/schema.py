"""`cloudai-run schema`: what is known of NeMo's recipes, and how to know another NeMo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from cloudai_run.errors import RunFailed, UserError

app = typer.Typer(help="What is known of NeMo's recipes, and how to know another NeMo.", no_args_is_help=True)


@app.command("export")
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="The container image that this is; runs in it use the file.")
    ] = None,
) -> int:
    """Write the recipes of the NeMo that is installed here, for the launcher to check overrides against.

    Run it where that NeMo is, in the container say.

    Example: cloudai-run schema export --image nvcr.io/nvidia/nemo:25.09
    """
    from cloudai_run import machine
    from cloudai_run.recipes.nemo import exporter, schema

    if not machine.has_nemo():
        raise UserError("NeMo is not installed here\n  run this inside a container that has it")
    version = machine.versions().get("nemo_toolkit", "unknown")
    # Two images may hold one version of NeMo.
    stem = re.sub(r"[^A-Za-z0-9.]+", "-", image.rpartition("/")[2]) if image else f"nemo-{version}"
    path = output or schema.schema_folder() / f"{stem}{schema.SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    code = exporter.main(["--output", str(path), *(["--image", image] if image else [])])
    if code:
        raise RunFailed(f"the export to {path} failed with exit code {code}")
    return 0


@app.command("list")
def list_schemas() -> None:
    """Name the NeMo versions that overrides can be checked against, and the image each came from.

    Example: cloudai-run schema list
    """
    from cloudai_run.recipes.nemo import schema

    for schema_id, path in schema.schema_files().items():
        loaded = schema.load(schema_id)
        typer.echo(
            f"{schema_id}  NeMo {loaded.versions['nemo_toolkit']}  image {loaded.image or 'any'}  {path}"
        )
