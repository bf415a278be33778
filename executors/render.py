"""From a plan to the text of a script for sbatch: a pure function of the plan."""

from __future__ import annotations

from collections.abc import Iterable

from cloudai_run.executors import machinery, machinery_slurm
from cloudai_run.executors.environment import split_env
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Layout, Plan, Stage
from cloudai_run.executors.quoting import comment_line, directive_value, pattern_path, shell_word
from cloudai_run.executors.slurm_options import Option
from cloudai_run.executors.stage_script import (
    JOB_ENV,
    check_function,
    container_name_word,
    export_lines,
    layout_options,
    quoted_options,
    ranks_a_node,
    ranks_word,
    srun_function,
    srun_words,
    stages_in,
)

# slurmctld refuses a longer script unless SchedulerParameters=max_script_size says otherwise (slurm.conf(5)).
_MAX_SCRIPT_BYTES = 4 * 1024 * 1024


def render_sbatch(plan: Plan) -> str:
    """Returns the script that sbatch gets: no clock, no file and no environment has a part in it.

    Raises:
        ExecutorError: if what the plan holds does not fit into a script or a command.
    """
    sections = [
        _directives(plan),
        _header(plan),
        *_stage_functions(plan),
        *_machinery(plan),
        _main(plan),
    ]
    script = joined(sections)
    size = len(script.encode("utf-8"))
    if size > _MAX_SCRIPT_BYTES:
        raise ExecutorError(
            f"the script has {size} bytes, and Slurm takes {_MAX_SCRIPT_BYTES}"
            "\n  put the longest values into files of the run folder and pass their paths"
        )
    return script


def joined(sections: Iterable[str | None]) -> str:
    """Returns the sections of a script with an empty line between them."""
    return "\n\n".join(section.strip("\n") for section in sections if section is not None) + "\n"


def _directives(plan: Plan) -> str:
    options: dict[str, Option] = {
        "output": f"{pattern_path(plan.run_dir)}/slurm-%j.out",
        **plan.directives.options(),
        "job-name": plan.job_name,
        "open-mode": "append",
        "requeue" if plan.retries else "no-requeue": None,
    }
    lines = ["#!/bin/bash"]
    for name, value in sorted(options.items()):
        lines.append(f"#SBATCH --{name}" + ("" if value is None else f"={directive_value(str(value))}"))
    return "\n".join(lines)


def _header(plan: Plan) -> str:
    return "\n".join(
        [
            comment_line(
                f"Job {plan.job_name}, stage by stage: {', '.join(step.name for step in steps(plan))}."
            ),
            "# Made by cloudai-run from a plan: change the plan, not this file.",
            "# Each stage's start and end go to stages.jsonl in the run folder, its output to logs/STAGE.",
            "# What stands in single quotes reaches the program as it stands.",
            "# shellcheck disable=SC2016",
            "",
            f"cr_run_dir={shell_word(plan.run_dir)}",
            "cr_attempt=${SLURM_RESTART_COUNT:-0} # counts how often Slurm has started this job again",
            "cr_job_id=$SLURM_JOB_ID",
        ]
    )


def steps(plan: Plan) -> list[Stage]:
    """Returns the plan's stages, each container that several share loaded before the first of them."""
    result: list[Stage] = []
    loaded: set[str] = set()
    for stage in plan.stages:
        name = stage.container
        if name is not None and name not in loaded and len(stages_in(name, plan)) > 1:
            loaded.add(name)
            result.append(
                Stage(name=f"load-{name}", argv=("true",), layout=Layout.ONCE_PER_NODE, container=name)
            )
        result.append(stage)
    return result


def _is_load(stage: Stage, plan: Plan) -> bool:
    return all(stage.name != planned.name for planned in plan.stages)


def shared_environment(plan: Plan) -> str | None:
    """Returns the function that exports what every stage gets, or None."""
    shared = split_env(plan.env).exported
    return "\n".join([f"{JOB_ENV}() {{", *export_lines(shared), "}"]) if shared else None


def _stage_functions(plan: Plan) -> list[str]:
    sections = [shared_environment(plan)]
    for stage in steps(plan):
        nodes = 1 if stage.layout is Layout.ONCE else stage.nodes
        sections.append(srun_function(stage, plan, load=_is_load(stage, plan)))
        sections.append(check_function(stage, plan, ranks_word(nodes, ranks_a_node(stage, plan))))
    return [section for section in sections if section is not None]


def check_machinery(plan: Plan) -> list[str]:
    """Returns the functions that the plan's checks use."""
    gates = [stage.gate for stage in plan.stages if stage.gate is not None]
    used = {
        machinery.MUST_PRINT: any(not gate.every_rank for gate in gates),
        machinery.EVERY_RANK_MUST_PRINT: any(gate.every_rank for gate in gates),
        machinery.MUST_EXIST: any(stage.expects for stage in plan.stages),
    }
    return [text for text, is_used in used.items() if is_used]


def _machinery(plan: Plan) -> list[str]:
    return [
        "# ---- How stages are run, checked and recorded: the same in every script.",
        machinery.RECORD,
        machinery.RUN_STAGE,
        machinery_slurm.START_STAGE,
        *check_machinery(plan),
        *([machinery.READ_SECRETS] if plan.secrets else []),
        *_remove_containers(plan),
        _on_exit(plan),
    ]


def _to_remove(plan: Plan) -> list[str]:
    shared = [name for name in plan.containers if len(stages_in(name, plan)) > 1]
    return shared if plan.remove_containers else []


def _remove_containers(plan: Plan) -> list[str]:
    names = _to_remove(plan)
    if not names:
        return []
    options: dict[str, str | None] = {
        **layout_options(Layout.ONCE_PER_NODE, None, 1),
        "mpi": "none",
        "export": "ALL",
        "output": "/dev/null",
        **quoted_options(plan.directives.srun_options()),
    }
    return [
        machinery_slurm.remove_containers(srun_words(options), [container_name_word(name) for name in names])
    ]


def _on_exit(plan: Plan) -> str:
    last: list[str] = []
    if plan.retries:
        lost = "grep -qs 'Node failure on' \"$cr_messages\""
        last.append(f"[[ $code == 0 || -n $cr_stopped ]] || {lost} || no_requeue")
    if plan.secrets and plan.secrets.remove and plan.retries:
        last.append(f"[[ -n $cr_stopped ]] || rm -f -- {shell_word(plan.secrets.path)}")
    if _to_remove(plan):
        last.append("[[ -n $cr_stopped || -z ${cr_loaded-} ]] || remove_containers")
    no_requeue = machinery_slurm.NO_REQUEUE if plan.retries else ""
    return "\n\n".join(
        filter(None, [no_requeue.strip("\n"), machinery.on_exit([*last, *machinery_slurm.LAST]).strip("\n")])
    )


def set_up_lines(plan: Plan, retries: int) -> list[str]:
    """Returns the lines that read the secrets and run the user's set-up."""
    if not plan.secrets and not plan.setup.strip():
        return []
    lines = ["cr_stage=set-up", "use_nodes 1", "record start null ''"]
    if plan.secrets:
        names = " ".join(plan.secrets.names)
        lines += [f"read_secrets {shell_word(plan.secrets.path)} {names}", "cr_code=$?"]
        if plan.secrets.remove:
            removal = f"rm -f -- {shell_word(plan.secrets.path)}"
            lines.append(f"((cr_attempt < {retries})) || {removal}" if retries else removal)
        lines.append('((cr_code == 0)) || exit "$cr_code"')
    if plan.setup.strip():
        lines += [
            "set -eo pipefail # the first of these lines that fails ends the job",
            plan.setup.strip("\n"),
            "set +efux +o pipefail",
        ]
    return [*lines, "record end 0 ''", "cr_stage=''"]


def run_line(stage: Stage, nodes: str) -> str:
    """Returns the line that runs a stage on a number of nodes."""
    return f"run_stage {stage.name} {nodes} {stage.timeout_s or 0}"


def _main(plan: Plan) -> str:
    lines = ["# ---- The job.", *machinery.BEGIN, *machinery_slurm.BEGIN]
    if any(stage.nsys for stage in plan.stages):
        lines.append('mkdir -p "$cr_run_dir/nsys"')
    if plan.retries:
        lines.append(f"((cr_attempt < {plan.retries})) || no_requeue # this is the last attempt")
    lines += set_up_lines(plan, plan.retries)
    for stage in steps(plan):
        if _is_load(stage, plan) and plan.remove_containers:
            lines.append("cr_loaded=1")
        nodes = 1 if stage.layout is Layout.ONCE else stage.nodes
        lines.append(run_line(stage, '"$SLURM_NNODES"' if nodes is None else str(nodes)))
    return "\n".join(lines)
