"""The executor that runs a recipe's stages on this machine: usable wherever NeMo-Run's LocalExecutor is."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_run.core.execution.local import LocalExecutor as NemoRunLocalExecutor

from cloudai_run.executors import registry
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.options import NsysOptions, Preflight


@dataclass(kw_only=True)
class LocalExecutor(NemoRunLocalExecutor):
    """Runs a task here, without Slurm and without containers, with the same logs and records as on a cluster.

    A recipe runs its stages, with `ntasks_per_node` processes each. Any other Partial or Script runs as one process, as
    under run.LocalExecutor. Processes end with the client that waits for them.

    Attributes:
        gpus_per_node: what a recipe is told that this machine has; None if nobody counted.
        env_vars: text, a `plan.NodeVar` that expands in the process, or a tuple of both.
        nsys: ranks to profile.
        preflight: a stage before all others that must pass.
        setup_lines: the user's own shell lines, run before the stages; the first that fails fails the run.
    """

    gpus_per_node: int | None = None
    setup_lines: str = ""
    nsys: NsysOptions | None = None
    preflight: Preflight | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        registry.register_local(cls)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuses what one machine cannot do.

        Raises:
            ExecutorError: says which field.
        """
        if self.nodes != 1:
            raise ExecutorError(
                f"LocalExecutor has one node, not {self.nodes}\n  instead: an executor of Slurm"
            )
        if self.retries:
            raise ExecutorError("LocalExecutor does not retry: no node but this one can be lost")

    def package_configs(self, *cfgs: tuple[str, str]) -> list[str]:
        # The one place where NeMo-Run shows an executor the whole task.
        self._configs = [*self.task_configs(), *cfgs]
        return super().package_configs(*cfgs)

    def task_configs(self) -> list[tuple[str, str]]:
        """What NeMo-Run packaged for the task: names and serialized configurations."""
        return list(getattr(self, "_configs", []))


registry.register_local(LocalExecutor)
