"""`cloudai-run compare`: two or more sides beside each other, with verdicts, causes and gates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloudai_run.errors import UserError

if TYPE_CHECKING:
    from cloudai_run.metrics.compare_results import Results


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN[,RUN...]...",
            help="A side each: a run (id, prefix, latest, folder), a log or a report.json; commas join the "
            "runs of one side. The first side is the one that the others are held against.",
        ),
    ],
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit with 1 if it holds: 'step_time_s>+3%' (change against the first side) or "
            "'step_time_s>2.5' (value). Can be given several times.",
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Exit with 1 if a side breaks a reference (value, lower, upper, unit) of this TOML or "
            "YAML file.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="published", help="Also compare each side with published numbers of its kind."),
    ] = None,
    min_effect: Annotated[
        str, typer.Option(metavar="PERCENT", help="Smallest change that is called one.")
    ] = "1%",
    run_spread: Annotated[
        str,
        typer.Option(metavar="PERCENT", help="Assumed run-to-run spread where each side has one run."),
    ] = "1%",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a pull request.")
    ] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one HTML page.")] = None,
) -> int:
    """Compare runs: what changed, whether it is more than noise, and what differs in how they were made.

    Exit code 0, 1 if a gate failed, 2 for a mistake.

    Example: cloudai-run compare run1,run2,run3 run4,run5,run6 --fail-if 'step_time_s>+3%'
    """
    from cloudai_run.metrics.compare_load import load_sides
    from cloudai_run.metrics.compare_results import compare_all
    from cloudai_run.metrics.compare_stats import CompareOptions
    from cloudai_run.metrics.gates import parse_gate
    from cloudai_run.metrics.models import model_shape
    from cloudai_run.metrics.references import load_references
    from cloudai_run.metrics.throughput import RunShape

    if as_json and as_markdown:
        raise UserError("--json and --markdown cannot both be printed: choose one")
    if against not in (None, "published"):
        raise UserError(
            f"--against {against!r} is not known\n  write --against published, or name a run as a side"
        )
    options = CompareOptions(
        min_effect=_fraction("--min-effect", min_effect), run_spread=_fraction("--run-spread", run_spread)
    )
    gates = [parse_gate(text) for text in fail_if or []]
    files = [load_references(path) for path in reference or []]
    shape = RunShape(
        global_batch_size=global_batch_size,
        seq_length=seq_length,
        num_gpus=gpus,
        model=model_shape(model) if model else None,
        gpu_model=gpu,
        precision=precision,
    )
    loaded = load_sides(sides, window=window, shape=shape)
    if len(loaded) < 2 and not (gates or files or against):
        raise UserError(
            "one side cannot be compared with nothing\n"
            "  give a second run, --against published, --fail-if 'step_time_s>2.5' or --reference FILE"
        )
    results = compare_all(
        loaded, options=options, gates=gates, references=files, against_published=against is not None
    )
    _write(results, as_json=as_json, as_markdown=as_markdown, html=html)
    return int(results.failed)


def _write(results: Results, *, as_json: bool, as_markdown: bool, html: Path | None) -> None:
    from cloudai_run.metrics.compare_html import comparison_html
    from cloudai_run.metrics.compare_json import comparison_json
    from cloudai_run.metrics.compare_text import markdown, terminal

    if html is not None:
        try:
            html.write_text(comparison_html(results), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {html}: {error.strerror}") from error
    if as_json:
        typer.echo(json.dumps(comparison_json(results), indent=2))
    else:
        typer.echo(markdown(results) if as_markdown else terminal(results), nl=False)


def _fraction(option: str, text: str) -> float:
    """Returns "1%" and "1" as 0.01: the options are in per cent."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError as error:
        raise UserError(f"{option} {text!r} is no number of per cent\n  an example: {option} 1%") from error
    if not 0 <= value < 100:
        raise UserError(f"{option} must lie between 0 and 100 per cent, and it is {text!r}")
    return value / 100
