"""From an executor and the command that NeMo-Run made of a task to the plan of its job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.options import NsysOptions, Preflight, member
from cloudai_run.executors.placement import place_stages
from cloudai_run.executors.plan import (
    Allocation,
    Directives,
    Layout,
    LocalLauncher,
    Mpi,
    Plan,
    Secrets,
    Stage,
)
from cloudai_run.executors.tasks import (
    HEAD_NODE_SETUP,
    as_words,
    captured_task,
    command_stage,
    stages_from,
    uses_head_node,
)

if TYPE_CHECKING:
    from torchx.specs import AppDef

    from cloudai_run.executors.local import LocalExecutor
    from cloudai_run.executors.slurm import SlurmExecutor

#: The script in the run folder.
SCRIPT_FILE = "sbatch.sh"
LOCAL_SCRIPT_FILE = "local.sh"


def slurm_plan(app: AppDef, executor: SlurmExecutor) -> Plan:
    """The plan of a task's job.

    Raises:
        ExecutorError: for what cannot run so.
    """
    executor.check()
    directives = executor.directives()
    run_dir = executor.cluster_dir()
    job_name = f"{executor.job_name_prefix or ''}{executor.job_name}"
    allocation = Allocation(
        nodes=directives.num_nodes,
        ntasks_per_node=directives.ntasks_per_node,
        gpus_per_node=executor.gpus_per_node,
        run_dir=run_dir,
        job_name=job_name,
    )
    stages = _recipe_stages(app, executor, allocation) or (_slurm_command(app, executor, allocation),)
    stages = _framed(stages, executor.nsys, executor.preflight)
    for stage in stages:
        executor.refuse_secrets_in(f"the environment of stage {stage.name}", stage.env)
    # place_stages needs a template even if no image is asked for; its image is always replaced.
    placed, containers = place_stages(
        stages, executor.container(), executor.containers, executor.container_template("unused")
    )
    setup = (HEAD_NODE_SETUP if uses_head_node(placed) else "") + (executor.setup_lines or "")
    return Plan(
        job_name=job_name,
        run_dir=run_dir,
        stages=placed,
        directives=directives,
        containers=containers,
        env=as_words(executor.env_vars),
        secrets=_secrets(executor),
        setup=setup,
        retries=executor.retries,
    )


def local_plan(app: AppDef, executor: LocalExecutor) -> Plan:
    """The plan of a task that runs on this machine.

    Raises:
        ExecutorError: for what cannot run so.
    """
    executor.check()
    (role,) = app.roles
    run_dir = os.path.abspath(executor.job_dir)
    allocation = Allocation(
        nodes=1,
        ntasks_per_node=executor.ntasks_per_node,
        gpus_per_node=executor.gpus_per_node,
        run_dir=run_dir,
        job_name=role.name,
        local=True,
    )
    stages = _recipe_stages(app, executor, allocation)
    if stages is None:
        command = command_stage(role, task=role.name, run_dir=run_dir)
        stages = (replace(command, local_launcher=LocalLauncher.SELF),)
    return Plan(
        job_name=role.name,
        run_dir=run_dir,
        stages=_framed(stages, executor.nsys, executor.preflight),
        directives=Directives(nodes=1, ntasks_per_node=executor.ntasks_per_node),
        env=as_words(executor.env_vars),
        setup=executor.setup_lines,
    )


def _recipe_stages(
    app: AppDef, executor: SlurmExecutor | LocalExecutor, allocation: Allocation
) -> tuple[Stage, ...] | None:
    """The stages of a recipe; None for a command."""
    if len(app.roles) != 1 or app.metadata:
        raise ExecutorError(
            f"{type(executor).__name__} runs one command a task; Ray clusters are for run.SlurmExecutor"
        )
    task = captured_task(executor.task_configs(), app.roles[0].name)
    function = stages_from(task)
    if task is None or function is None:
        return None
    return tuple(function(task, allocation))


def _slurm_command(app: AppDef, executor: SlurmExecutor, allocation: Allocation) -> Stage:
    return command_stage(
        app.roles[0],
        task=executor.job_name,
        run_dir=allocation.run_dir,
        macros=executor.macro_values(),
        mpi=member(Mpi, executor.mpi, "mpi"),
        workdir=f"{allocation.run_dir}/code",
    )


def _framed(
    stages: Sequence[Stage], nsys: NsysOptions | None, preflight: Preflight | None
) -> tuple[Stage, ...]:
    wrapped = profiled(stages, nsys)
    return (preflight.stage(), *wrapped) if preflight else wrapped


def profiled(stages: Sequence[Stage], options: NsysOptions | None) -> tuple[Stage, ...]:
    """The stages with nsys where the executor asks for it; what a recipe says of its own stage stays.

    Raises:
        ExecutorError: the options name a stage that is not there.
    """
    if options is None:
        return tuple(stages)
    names = [stage.name for stage in stages]
    unknown = [name for name in options.stages or () if name not in names]
    if unknown:
        raise ExecutorError(f"nsys.stages names {', '.join(unknown)}; the job has {', '.join(names)}")
    spec = options.spec()

    def chosen(stage: Stage) -> bool:
        if stage.nsys is not None:
            return False
        return stage.name in options.stages if options.stages else stage.layout is Layout.ALL_RANKS

    return tuple(replace(stage, nsys=spec) if chosen(stage) else stage for stage in stages)


def _secrets(executor: SlurmExecutor) -> Secrets | None:
    if executor.secret_file:
        names = tuple(executor.secrets)
        return Secrets(names=names, path=executor.secret_file, remove=False) if names else None
    names = tuple(name for name in executor.secrets if os.environ.get(name))
    if not names:
        return None
    path = f"{executor.secrets_dir()}/{executor.experiment_id}-{os.path.basename(executor.job_dir)}"
    return Secrets(names=names, path=path)
