"""The functions of one stage in a job's script: its srun, and what is looked at after it."""

from __future__ import annotations

from cloudai_run.executors.container import all_mounts, container_flags
from cloudai_run.executors.environment import SplitEnv, split_env
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Layout, Plan, Stage
from cloudai_run.executors.quoting import expanding_word, path_under, pattern_path, shell_word
from cloudai_run.executors.rank import rank_command
from cloudai_run.executors.slurm_options import Option, check_options

# Linux gives a program 2 MiB for its arguments and environment together at the usual stack limit of 8 MiB
# (execve(2)); what the cluster and the user's login set besides must fit too.
_MAX_COMMAND_BYTES = 1800 * 1024
JOB_ENV = "job_env"


def srun_words(options: dict[str, str | None]) -> list[str]:
    """Returns options, whose values are quoted already, as words."""
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]


def quoted_options(options: dict[str, Option]) -> dict[str, str | None]:
    """Returns the user's options with their values quoted."""
    return {name: None if value is None else shell_word(str(value)) for name, value in options.items()}


def layout_options(layout: Layout, nodes: int | None, ntasks_per_node: int) -> dict[str, str | None]:
    """Returns the three options that place a step.

    All three are needed: in an allocation of 8 tasks a node, --ntasks-per-node=1 alone starts all tasks.
    """
    a_node = ntasks_per_node if layout is Layout.ALL_RANKS else 1
    if layout is Layout.ONCE:
        nodes = 1
    return {
        "nodes": '"$SLURM_NNODES"' if nodes is None else str(nodes),
        "ntasks": ranks_word(nodes, a_node),
        "ntasks-per-node": str(a_node),
    }


def ranks_word(nodes: int | None, ntasks_per_node: int) -> str:
    """Returns the number of a step's ranks as a word; `nodes` None is all nodes of the job."""
    if nodes is not None:
        return str(nodes * ntasks_per_node)
    return '"$SLURM_NNODES"' if ntasks_per_node == 1 else f'"$((SLURM_NNODES * {ntasks_per_node}))"'


def container_name_word(name: str) -> str:
    """Returns the name under which every node keeps a container: of this job and this attempt alone."""
    return expanding_word((name, "_${SLURM_JOB_ID}_${cr_attempt}"))


def ranks_a_node(stage: Stage, plan: Plan) -> int:
    """Returns the number of a stage's processes on each of its nodes."""
    if stage.layout is not Layout.ALL_RANKS:
        return 1
    return stage.ntasks_per_node or plan.directives.ntasks_per_node


def stages_in(container: str, plan: Plan) -> list[str]:
    """Returns the names of the stages that run in a container."""
    return [stage.name for stage in plan.stages if stage.container == container]


def _container_options(stage: Stage, plan: Plan, env: SplitEnv, *, load: bool) -> dict[str, str | None]:
    if stage.container is None:
        return {}
    container = plan.containers[stage.container]
    users = stages_in(stage.container, plan)
    options: dict[str, str | None] = {}
    if load or len(users) == 1:
        options["container-image"] = shell_word(container.image)
    if len(users) > 1:
        options["container-name"] = container_name_word(stage.container)
    options["container-mounts"] = shell_word(all_mounts(container, plan.run_dir))
    workdir = stage.workdir or container.workdir
    if workdir is not None and not load:
        options["container-workdir"] = shell_word(workdir)
    options.update(container_flags(container))
    if container.save is not None and stage.name == users[-1]:
        options["container-save"] = shell_word(container.save)
    names = sorted({*env.exported, *(plan.secrets.names if plan.secrets else ())})
    if names:
        options["container-env"] = ",".join(names)
    return options


def _log_word(plan: Plan) -> str:
    logs = "$cr_logs" if "%" not in pattern_path(plan.run_dir) else "${cr_logs//%/%%}"
    return f'"{logs}/node-%n-%N.log"'


def _srun_options(stage: Stage, plan: Plan, env: SplitEnv, *, load: bool) -> dict[str, str | None]:
    options = layout_options(stage.layout, stage.nodes, ranks_a_node(stage, plan))
    options["mpi"] = stage.mpi.value
    options["export"] = "ALL"
    options["kill-on-bad-exit"] = "1"
    options["label"] = None
    options["output"] = _log_word(plan)
    if stage.layout is Layout.ALL_RANKS and plan.directives.cpus_per_task is not None:
        options["cpus-per-task"] = str(plan.directives.cpus_per_task)
    if stage.workdir is not None and stage.container is None:
        options["chdir"] = shell_word(stage.workdir)
    options.update(_container_options(stage, plan, env, load=load))
    options.update(quoted_options(plan.directives.srun_options()))
    options.update(quoted_options(check_options(stage.srun, "srun", f"stage {stage.name}: srun")))
    return options


def stage_env(stage: Stage, plan: Plan) -> SplitEnv:
    """Returns a stage's environment, the plan's included, by the way that each variable goes."""
    return split_env({**plan.env, **stage.env})


def check_size(stage: Stage, env: SplitEnv) -> None:
    """Refuses a stage whose arguments and environment together no program can be given.

    Raises:
        ExecutorError: with the size.
    """
    words = [str(word) for word in (*stage.command, *env.on_rank.values())]
    size = sum(len(text.encode("utf-8")) for text in words)
    size += sum(len(name) + len(text.encode("utf-8")) + 10 for name, text in env.exported.items())
    if size > _MAX_COMMAND_BYTES:
        raise ExecutorError(
            f"stage {stage.name}: its arguments and environment have {size} bytes together, and Linux passes"
            f" about {_MAX_COMMAND_BYTES} to a program"
            "\n  put the longest into files of the run folder and pass their paths"
        )


def own_exports(env: SplitEnv, shared: dict[str, str]) -> dict[str, str]:
    """Returns what a stage exports besides what every stage exports."""
    return {name: value for name, value in env.exported.items() if shared.get(name) != value}


def export_lines(env: dict[str, str]) -> list[str]:
    """Returns lines that export variables, sorted by name."""
    return [f"  export {name}={shell_word(value)}" for name, value in sorted(env.items())]


def srun_function(stage: Stage, plan: Plan, *, load: bool = False) -> str:
    """Returns `stage_NAME`, which replaces its shell by the stage's srun.

    Args:
        stage: what to run.
        plan: its plan.
        load: this step loads the stage's container, and is none of the plan's stages.
    """
    env = stage_env(stage, plan)
    if load:
        env = SplitEnv(env.exported, {})
    check_size(stage, env)
    words = ["srun", *srun_words(_srun_options(stage, plan, env, load=load))]
    if stage.timeout_s is not None:
        words.insert(0, f"timeout --kill-after=60 {stage.timeout_s}")
    place = (plan.run_dir, plan.job_name, stage.name)
    words += rank_command(stage.command, env.on_rank, stage.nsys, place).quoted()
    return stage_function(stage, plan, env, words)


def stage_function(stage: Stage, plan: Plan, env: SplitEnv, words: list[str]) -> str:
    """Returns `stage_NAME`: the command, then its environment, so that no value can change the command."""
    shared = split_env(plan.env).exported
    lines = [
        f"stage_{stage.name}() {{",
        "  set -- " + " \\\n    ".join(words),
        *([f"  {JOB_ENV}"] if shared else []),
        *export_lines(own_exports(env, shared)),
        '  exec "$@"',
        "}",
    ]
    return "\n".join(lines)


def check_function(stage: Stage, plan: Plan, ranks: str) -> str | None:
    """Returns `check_NAME`, which looks at what a stage that exited with 0 has left, or None."""
    checks: list[str] = []
    if stage.gate is not None and stage.gate.every_rank:
        checks.append(f"every_rank_must_print {ranks} {shell_word(stage.gate.text)}")
    elif stage.gate is not None:
        checks.append(f"must_print {shell_word(stage.gate.text)}")
    for artifact in stage.expects:
        path = (
            shell_word(artifact.path)
            if artifact.path.startswith("/")
            else path_under("cr_run_dir", artifact.path)
        )
        checks.append(f"must_exist {path} {shell_word(artifact.hint)}")
    if not checks:
        return None
    return f"check_{stage.name}() {{\n  " + " &&\n    ".join(checks) + "\n}"
