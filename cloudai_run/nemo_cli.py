"""`nemo cloudai pretrain ...`: the same recipes on NeMo-Run's own command, loaded by its entry point.

Nothing is registered under `llm`, so `nemo llm pretrain` stays NeMo's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import nemo_run as run
from nemo_run.cli.api import RunContext


@dataclass(kw_only=True)
class CloudaiContext(RunContext):
    """Hands NeMo-Run's options and words to this project's command, so that both check and launch alike."""

    def cli_execute(
        self,
        fn: Callable[..., object],
        args: list[str],
        entrypoint_type: Literal["task", "experiment"] = "task",
    ) -> None:
        from cloudai_run.cli.main import run as run_command

        del fn, entrypoint_type
        options: list[str] = []
        for flag, value in (
            ("--factory", self.factory),
            ("--yaml", self.yaml),
            ("--to-yaml", self.to_yaml),
            ("--to-json", self.to_json),
            ("--to-toml", self.to_toml),
            ("--name", None if self.name == "pretrain" else self.name),
        ):
            options += [flag, str(value)] if value else []
        for flag, given in (
            ("--dryrun", self.dryrun),
            ("--detach", self.detach),
            ("--yes", self.skip_confirmation),
            ("--tail-logs", self.tail_logs),
        ):
            options += [flag] if given else []
        # NeMo-Run turns any Exception into a message of its own; typer.Exit is one.
        sys.exit(run_command(["pretrain", *options, *args]))


@run.cli.entrypoint(name="pretrain", namespace="cloudai", run_ctx_cls=CloudaiContext, skip_confirmation=True)
def pretrain() -> None:
    """Run a recipe of cloudai-run; `cloudai-run list` names them."""
