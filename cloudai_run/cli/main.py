"""The command `cloudai-run`: its verbs, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import typer

try:  # Typer carries click inside from 0.25 on.
    from typer._click.exceptions import UsageError
except ImportError:
    from click.exceptions import UsageError  # pyright: ignore[reportMissingImports]

from cloudai_run.cli import compare, doctor, pretrain, report, runs, schema, show
from cloudai_run.errors import RunFailed, UserError
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.version import VERSION

EXIT_FAILED = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="cloudai-run",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run LLM training benchmarks on GPU clusters, and compare numbers that can be trusted.\n\n"
    "Example: cloudai-run pretrain --factory llama3_8b --smoke trainer.max_steps=5",
)
app.command("pretrain")(pretrain.pretrain)
app.command("list")(show.list_all)
app.command("show")(show.show)
app.command("runs")(runs.runs)
app.command("status")(runs.status)
app.command("logs")(runs.logs)
app.command("cancel")(runs.cancel)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("doctor")(doctor.doctor)
app.add_typer(schema.app, name="schema")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cloudai-run {VERSION}")
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(argv: Sequence[str]) -> int:
    """Runs one command line and returns its exit code (docs/exit-codes.md); a mistake is one message."""
    # NeMo-Run imports torch where it is installed, and torch then complains of a package it was given.
    warnings.filterwarnings("ignore", message="The pynvml package is deprecated", category=FutureWarning)
    try:
        result = app(list(argv), standalone_mode=False)
    except (UserError, RecipeError, ExecutorError) as error:
        return _say(str(error), EXIT_MISTAKE)
    except RunFailed as error:
        return _say(str(error), EXIT_FAILED)
    except UsageError as error:
        where = f"\n  see: {error.ctx.command_path} --help" if error.ctx else ""
        return _say(f"{error.format_message()}{where}", EXIT_MISTAKE)
    except typer.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", EXIT_INTERRUPTED)
    return result if isinstance(result, int) else 0


def _say(message: str, code: int) -> int:
    typer.echo(f"error: {message}", err=True)
    return code


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))
