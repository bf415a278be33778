"""What will run, as NeMo-Run's dry run holds it; printed, it is the script's bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from torchx.schedulers.api import AppDryRunInfo
from torchx.schedulers.local_scheduler import PopenRequest

from cloudai_run.executors.local import LocalExecutor
from cloudai_run.executors.plan import Plan
from cloudai_run.executors.slurm import SlurmExecutor


@dataclass(frozen=True)
class SlurmRequest:
    """A job for sbatch.

    Attributes:
        executor: of the task.
        plan: of the job.
        script: its rendering: the bytes that are submitted.
    """

    executor: SlurmExecutor
    plan: Plan
    script: str


@dataclass(kw_only=True)
class LocalRequest(PopenRequest):
    """A script for bash on this machine, as a process of torchx's.

    Attributes:
        executor: of the task.
        plan: of the job.
        script: its rendering: the bytes that run.
    """

    executor: LocalExecutor
    plan: Plan
    script: str


class _HasScript(Protocol):
    @property
    def script(self) -> str: ...


T = TypeVar("T", bound=_HasScript)


class ScriptDryRun(AppDryRunInfo[T], Generic[T]):
    """A dry run that prints itself: NeMo-Run's console would wrap and colour the script."""

    def __init__(self, request: T) -> None:
        super().__init__(request, lambda request: request.script)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        console.out(self.request.script, highlight=False, end="")
        yield "These bytes are what is submitted."
