"""Makes NeMo-Run treat this project's executors as its own.

`nemo_run_parts` lists each private part that is used, so that one message says what a new version changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING

from nemo_run.core.execution.base import Executor
from nemo_run.run import experiment as nemo_run_experiment
from nemo_run.run import job as nemo_run_job
from nemo_run.run.torchx_backend import runner as nemo_run_runner
from nemo_run.run.torchx_backend.schedulers import api as schedulers_api

from cloudai_run.executors.errors import ExecutorError

if TYPE_CHECKING:
    from torchx.schedulers import SchedulerFactory

    Factories = Callable[[], dict[str, SchedulerFactory]]

SLURM_SCHEDULER = "cloudai_run_slurm"
LOCAL_SCHEDULER = "cloudai_run_local"

_DETACHES = "_cloudai_run_detaches"

_classes: set[type[Executor]] = set()


def register_slurm(executor: type[Executor]) -> None:
    """Gives a class of Slurm executors what run.SlurmExecutor has: detach, parallel tasks, dependencies."""
    _register(executor, SLURM_SCHEDULER)
    experiment = nemo_run_experiment.Experiment
    experiment._DETACH_SUPPORTED_EXECUTORS += (executor,)  # pyright: ignore[reportAttributeAccessIssue]
    experiment._DEPENDENCY_SUPPORTED_EXECUTORS += (executor,)  # pyright: ignore[reportAttributeAccessIssue]


def register_local(executor: type[Executor]) -> None:
    """Gives a class of local executors what run.LocalExecutor has."""
    _register(executor, LOCAL_SCHEDULER)


def _register(executor: type[Executor], scheduler: str) -> None:
    # NeMo-Run looks executors up by their exact class. JobGroup.SUPPORTED_EXECUTORS is left alone: a group
    # on a class that it does not merge by name would run one task twice and another never.
    schedulers_api.EXECUTOR_MAPPING[executor] = scheduler
    schedulers_api.REVERSE_EXECUTOR_MAPPING.setdefault(scheduler, executor)
    experiment = nemo_run_experiment.Experiment
    experiment._PARALLEL_SUPPORTED_EXECUTORS += (executor,)  # pyright: ignore[reportAttributeAccessIssue]
    _classes.add(executor)


def is_ours(executor: object) -> bool:
    """Whether an executor belongs to this project."""
    return type(executor) in _classes


def _scheduler_factories(original: Factories) -> Factories:
    @wraps(original)
    def factories() -> dict[str, SchedulerFactory]:
        # The package's entry points name these too; a checkout that is not installed has none.
        from cloudai_run.executors import local_scheduler, slurm_scheduler

        ours: dict[str, SchedulerFactory] = {
            SLURM_SCHEDULER: slurm_scheduler.create_scheduler,
            LOCAL_SCHEDULER: local_scheduler.create_scheduler,
        }
        return {**original(), **ours}

    return factories


def _group_init(original: Callable[[nemo_run_job.JobGroup], None]) -> Callable[[nemo_run_job.JobGroup], None]:
    @wraps(original)
    def post_init(self: nemo_run_job.JobGroup) -> None:
        executors = self.executors if isinstance(self.executors, list) else [self.executors]
        for executor in executors:
            if is_ours(executor):
                raise ExecutorError(
                    f"{type(executor).__name__} takes no group of tasks: the first to end would end all"
                    "\n  instead: one recipe with several stages, or one Experiment.add for each task"
                    " (dependencies=[...] orders them)"
                )
        original(self)

    return post_init


Exit = Callable[
    [nemo_run_experiment.Experiment, type[BaseException] | None, BaseException | None, TracebackType | None],
    None,
]


def _experiment_exit(original: Exit) -> Exit:
    @wraps(original)
    def leave(
        self: nemo_run_experiment.Experiment,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        original(self, exc_type, exc_value, traceback)
        if exc_type is None and self._launched and not getattr(self, _DETACHES, False):
            from cloudai_run.executors.jobs import raise_for_failures

            raise_for_failures(
                job.executor.job_dir
                for job in self._jobs
                if isinstance(job, nemo_run_job.Job) and job.launched and is_ours(job.executor)
            )

    return leave


def _experiment_run(original: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(original)

    @wraps(original)
    def run(self: nemo_run_experiment.Experiment, *args: object, **kwargs: object) -> None:
        # Noted here, as NeMo-Run forgets the wish where an executor cannot detach: who did not mean to wait looks after
        # the outcome by other means.
        setattr(self, _DETACHES, bool(signature.bind(self, *args, **kwargs).arguments.get("detach")))
        original(self, *args, **kwargs)

    return run


def _install() -> None:
    nemo_run_runner.get_scheduler_factories = _scheduler_factories(nemo_run_runner.get_scheduler_factories)
    group, experiment = nemo_run_job.JobGroup, nemo_run_experiment.Experiment
    group.__post_init__ = _group_init(group.__post_init__)  # pyright: ignore[reportAttributeAccessIssue]
    # NeMo-Run forgets that a job failed once it stops waiting: the user's script would go on and exit with 0.
    experiment.run = _experiment_run(experiment.run)
    experiment.__exit__ = _experiment_exit(experiment.__exit__)  # pyright: ignore[reportAttributeAccessIssue]


_install()
