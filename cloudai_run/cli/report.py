"""`cloudai-run report`: the numbers of a run, or of any log files."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    push: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help="Send it to tensorboard:DIR, mlflow:URI or wandb:PROJECT. Can be given several times.",
        ),
    ] = None,
) -> int:
    """Print the numbers of a run with unit, convention and sample count, and whether they may be used.

    A run that has ended also gets its report.json refreshed. Exit code 1 if there are no usable steps or the
    numbers are invalid.

    Example: cloudai-run report latest --html report.html
    """
    from cloudai_run.metrics.load import NoSteps, load_report
    from cloudai_run.metrics.models import model_shape
    from cloudai_run.metrics.push import parse_target
    from cloudai_run.metrics.report_json import report_json
    from cloudai_run.metrics.report_text import report_text
    from cloudai_run.metrics.throughput import RunShape

    targets = [parse_target(text) for text in push or []]
    shape = RunShape(
        global_batch_size=global_batch_size,
        seq_length=seq_length,
        num_gpus=gpus,
        model=model_shape(model) if model else None,
        gpu_model=gpu,
        precision=precision,
    )
    try:
        result = load_report(names, window=window, shape=shape)
    except NoSteps as error:
        raise RunFailed(str(error)) from error
    typer.echo(json.dumps(report_json(result), indent=2) if as_json else report_text(result), nl=as_json)
    if window is None and shape == RunShape():
        _refresh(result)
    _write(result, {"markdown": markdown, "csv": csv, "html": html, "png": png})
    if targets:
        from cloudai_run.metrics.push import push as send

        for target in targets:
            typer.echo(send(result, target), err=True)
    main = result.main
    if not main.measured_something:
        why = main.window.note or "; ".join(dict.fromkeys(main.missing.values())) or "none in the log"
        raise RunFailed(f"run {result.label} has no usable steps: {why}")
    return 1 if result.status == "invalid" else 0


def _refresh(result: Report) -> None:
    """Keeps report.json of an ended run up to date; a folder of somebody else's is left as it is."""
    from cloudai_run.metrics.report_file import REPORT_FILE, save_report

    if result.run_dir is None or result.job is None or not result.job.state.ended:
        return
    try:
        save_report(result, result.run_dir)
    except OSError as error:
        typer.echo(f"{result.run_dir / REPORT_FILE} was not refreshed: {error.strerror}", err=True)


def _write(result: Report, wanted: Mapping[str, Path | None]) -> None:
    from cloudai_run.metrics.report_html import report_html
    from cloudai_run.metrics.report_plots import main_png
    from cloudai_run.metrics.report_tables import report_csv, report_markdown

    writers = {"markdown": report_markdown, "csv": report_csv, "html": report_html, "png": main_png}
    for kind, path in wanted.items():
        if path is None:
            continue
        made = writers[kind](result)
        try:
            path.write_bytes(made if isinstance(made, bytes) else made.encode("utf-8"))
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
        typer.echo(f"wrote {path}", err=True)
