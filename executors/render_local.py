"""From a plan to a script that runs it on this machine without Slurm: a pure function of the plan."""

from __future__ import annotations

from cloudai_run.executors import machinery, machinery_local
from cloudai_run.executors.environment import split_env
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Layout, LocalLauncher, Plan, Stage
from cloudai_run.executors.quoting import comment_line, shell_word
from cloudai_run.executors.rank import rank_command
from cloudai_run.executors.render import (
    check_machinery,
    joined,
    run_line,
    set_up_lines,
    shared_environment,
)
from cloudai_run.executors.stage_script import (
    JOB_ENV,
    check_function,
    check_size,
    export_lines,
    own_exports,
    ranks_a_node,
    stage_env,
)

# torchrun has its own names for what Slurm tells a rank.
_TORCHRUN_PRELUDE = "SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK SLURM_NODEID=$GROUP_RANK"


def render_local(plan: Plan) -> str:
    """Returns a script of bash that runs the plan's stages here, with the same logs, records and checks.

    The directives count only by their number of tasks, retries not at all. Ranks are started as the stage's
    `local_launcher` says; with TORCHRUN and SELF all output is rank 0's, since one process writes it.

    Raises:
        ExecutorError: for a plan that needs more than one node, a container or MPI.
    """
    _check(plan)
    functions: list[str | None] = [shared_environment(plan)]
    for stage in plan.stages:
        functions.append(_stage_function(stage, plan))
        functions.append(check_function(stage, plan, str(_processes(stage, plan))))
    return joined([_header(plan), *functions, *_machinery(plan), _main(plan)])


def _check(plan: Plan) -> None:
    if plan.directives.num_nodes != 1:
        raise ExecutorError(f"a local run has one node; the plan asks for {plan.directives.num_nodes}")
    for stage in plan.stages:
        if stage.container is not None:
            raise ExecutorError(
                f"stage {stage.name} runs in the container {stage.container!r}; a local run has none"
                "\n  give no container image, and what the stage needs on this machine"
            )
        if (
            stage.gate is not None
            and stage.gate.every_rank
            and _processes(stage, plan) != _labels(stage, plan)
        ):
            raise ExecutorError(
                f"stage {stage.name}: {stage.local_launcher} writes all ranks' output as one, and the gate"
                " asks for every rank's\n  use local_launcher=spawn"
            )


def _processes(stage: Stage, plan: Plan) -> int:
    return ranks_a_node(stage, plan)


def _labels(stage: Stage, plan: Plan) -> int:
    return _processes(stage, plan) if _launcher(stage) is LocalLauncher.SPAWN else 1


def _launcher(stage: Stage) -> LocalLauncher:
    return LocalLauncher(stage.local_launcher) if stage.layout is Layout.ALL_RANKS else LocalLauncher.SPAWN


def _header(plan: Plan) -> str:
    return "\n".join(
        [
            "#!/bin/bash",
            comment_line(
                f"Job {plan.job_name} on this machine: {', '.join(stage.name for stage in plan.stages)}."
            ),
            "# Made by cloudai-run from a plan: change the plan, not this file.",
            "# Each stage's start and end go to stages.jsonl in the run folder, its output to logs/STAGE.",
            "# What stands in single quotes reaches the program as it stands.",
            "# shellcheck disable=SC2016",
            "",
            f"cr_run_dir={shell_word(plan.run_dir)}",
            "cr_attempt=0",
            "cr_job_id=null",
        ]
    )


def _stage_function(stage: Stage, plan: Plan) -> str:
    env = stage_env(stage, plan)
    check_size(stage, env)
    launcher, processes = _launcher(stage), _processes(stage, plan)
    torchrun = launcher is LocalLauncher.TORCHRUN
    place = (plan.run_dir, plan.job_name, stage.name)
    prelude = (_TORCHRUN_PRELUDE,) if torchrun else ()
    words = rank_command(stage.command, env.on_rank, stage.nsys, place, prelude).quoted()
    if torchrun:
        words.insert(0, f"torchrun --standalone --nproc-per-node={processes} --no-python")
    if stage.timeout_s is not None:
        words.insert(0, f"timeout --kill-after=10 {stage.timeout_s}")
    shared = split_env(plan.env).exported
    started = processes if launcher is LocalLauncher.SPAWN else 1
    lines = [
        f"stage_{stage.name}() {{",
        "  set -- " + " \\\n    ".join(words),
        *([f"  cd -- {shell_word(stage.workdir)} || exit"] if stage.workdir is not None else []),
        *([f"  {JOB_ENV}"] if shared else []),
        *export_lines(own_exports(env, shared)),
        f"  slurm_variables {started} {shell_word(plan.job_name)}"
        if launcher is LocalLauncher.SPAWN
        else "  unset SLURM_NTASKS # or the program would take this one process for one rank of many",
        f'  spawn {started} "$@"',
        "}",
    ]
    return "\n".join(lines)


def _machinery(plan: Plan) -> list[str]:
    last = [f"rm -f -- {shell_word(plan.secrets.path)}"] if plan.secrets and plan.secrets.remove else []
    return [
        "# ---- How stages are run, checked and recorded: the same in every script.",
        machinery.RECORD,
        machinery.RUN_STAGE,
        machinery_local.START_STAGE,
        machinery_local.SLURM_VARIABLES,
        *check_machinery(plan),
        *([machinery.READ_SECRETS] if plan.secrets else []),
        machinery.on_exit(last),
    ]


def _main(plan: Plan) -> str:
    lines = ["# ---- The job.", *machinery.BEGIN, *machinery_local.BEGIN]
    if any(stage.nsys for stage in plan.stages):
        lines.append('mkdir -p "$cr_run_dir/nsys"')
    lines += set_up_lines(plan, retries=0)
    lines += [run_line(stage, "1") for stage in plan.stages]
    return "\n".join(lines)
