"""`cloudai-run report`: the numbers of a run, or of any log files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloudai_run.errors import RunFailed, UserError

if TYPE_CHECKING:
    from cloudai_run.metrics.report import Report


def report(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN | FILE...", help="A run (id, prefix, latest, folder), log files, or - for stdin."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False,
    window: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="Steps to measure, in place of the warm-up rule.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model's shape, for foreign logs: llama3_8b ...")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="Number of GPUs, for foreign logs.")] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU model, for MFU: H100, B200 ...")] = None,
    precision: Annotated[str | None, typer.Option(help="bf16, fp8 ..., for MFU.")] = None,
    global_batch_size: Annotated[int | None, typer.Option(min=1, help="Sequences a step.")] = None,
    seq_length: Annotated[int | None, typer.Option(min=1, help="Tokens a sequence.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write Markdown for a pull request.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the steps as CSV.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page with plots.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the main plot.")] = None,
) -> int:
    """Print the numbers of a run with unit, convention and sample count, and whether they may be used.

    Example: cloudai-run report latest --json
    """
    from cloudai_run.metrics.load import load_report
    from cloudai_run.metrics.models import model_shape
    from cloudai_run.metrics.report_json import report_json
    from cloudai_run.metrics.report_text import report_text
    from cloudai_run.metrics.throughput import RunShape

    shape = RunShape(
        global_batch_size=global_batch_size,
        seq_length=seq_length,
        num_gpus=gpus,
        model=model_shape(model) if model else None,
        gpu_model=gpu,
        precision=precision,
    )
    result = load_report(names, window=window, shape=shape)
    typer.echo(json.dumps(report_json(result), indent=2) if as_json else report_text(result), nl=as_json)
    _write(result, [("markdown", markdown), ("csv", csv), ("html", html), ("png", png)])
    if not result.main.window.steps and not result.main.log.tables:
        raise RunFailed(
            f"run {result.label} has no usable steps: {result.main.window.note or 'none in the log'}"
        )
    return 1 if result.main.validity.status == "invalid" else 0


def _write(result: Report, wanted: Sequence[tuple[str, Path | None]]) -> None:
    from cloudai_run.metrics.report_html import report_html
    from cloudai_run.metrics.report_plots import main_png
    from cloudai_run.metrics.report_tables import report_csv, report_markdown

    writers = {"markdown": report_markdown, "csv": report_csv, "html": report_html, "png": main_png}
    for kind, path in wanted:
        if path is None:
            continue
        made = writers[kind](result)
        try:
            path.write_bytes(made if isinstance(made, bytes) else made.encode("utf-8"))
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
        typer.echo(f"wrote {path}", err=True)
