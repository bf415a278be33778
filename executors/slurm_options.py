"""The long options that sbatch and srun know, so that a misspelt one is refused before the job is submitted.

Source: sbatch(1) and srun(1) of Slurm 22.05 to 24.11, and pyxis's options that no dataclass has a field for.
A name given with its two dashes ("--site-option") is passed on unchecked, for options of a site's plugins or
of a later Slurm.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from cloudai_run.executors.errors import ExecutorError

Option = str | int | None
"""Value of an option; None (or True) is a bare flag."""


def names(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


_COMMON = names(
    "acctg-freq bb bbf chdir cluster-constraint comment constraint contiguous core-spec cores-per-socket "
    "cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot distribution error exclude exclusive extra "
    "extra-node-info gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags "
    "hint input licenses mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill "
    "nodelist ntasks-per-core ntasks-per-gpu ntasks-per-socket open-mode overcommit oversubscribe power "
    "prefer priority profile propagate quiet reservation resv-ports segment signal sockets-per-node "
    "spread-job stepmgr switches thread-spec threads-per-core time tmp tres-bind tres-per-task "
    "use-min-nodes verbose wckey"
)
_SBATCH = _COMMON | names(
    "batch begin clusters container container-id dependency export-file get-user-env gid hold ignore-pbs "
    "kill-on-invalid-dep mail-type mail-user nodefile reboot time-min uid wait-all-nodes"
)
_SRUN = _COMMON | names(
    "accel-bind bcast bcast-exclude compress container-entrypoint container-entrypoint-log "
    "container-unshare cpu-bind debugger-test disable-status epilog exact immediate interactive "
    "kill-on-bad-exit msg-timeout no-container-entrypoint overlap preserve-env prolog quit-on-interrupt "
    "relative send-libs slurmd-debug task-epilog task-prolog tree-width unbuffered wait whole x11"
)
_SBATCH_ELSEWHERE = {
    **{
        name.replace("_", "-"): f"Directives has the field {name}"
        for name in sorted(
            names(
                "account partition qos time nodes ntasks_per_node nodelist exclude reservation constraint "
                "segment switches gres gpus_per_node cpus_per_task mem exclusive comment output"
            )
        )
    },
    "array": "one job runs one plan; launch one run per variant instead",
    "export": "a list would keep variables from every srun; name them in Plan.env",
    "job-name": "Plan.job_name names the job",
    "no-requeue": "Plan.retries says how often a job may start again",
    "ntasks": "Directives has the field ntasks_per_node",
    "open-mode": "the job's output is always appended to, so that a second attempt keeps the first one's",
    "requeue": "Plan.retries says how often a job may start again",
    "wrap": "the plan is the script",
}
_SRUN_ELSEWHERE = {
    "container-env": "it names what Plan.env and Stage.env set",
    "container-image": "Plan.containers has the images",
    "container-mount-home": "Container has the field mount_home",
    "container-mounts": "Container has the field mounts",
    "container-name": "the script names its own containers",
    "container-readonly": "Container has the field writable",
    "container-remap-root": "Container has the field remap_root",
    "container-save": "Container has the field save",
    "container-workdir": "Container and Stage have the field workdir",
    "container-writable": "Container has the field writable",
    "chdir": "Stage has the field workdir",
    "error": "a stage's errors go to its log",
    "export": "every srun gets the whole environment; name variables in Plan.env",
    "label": "a stage's log is always labelled",
    "mpi": "Stage has the field mpi",
    "multi-prog": "a stage runs one program",
    "nodes": "Stage has the fields layout and nodes",
    "ntasks": "Stage has the fields layout and ntasks_per_node",
    "ntasks-per-node": "Stage has the field ntasks_per_node",
    "output": "a stage's log has a fixed place",
    "pty": "a stage has no terminal",
}
_KNOWN = {"sbatch": (_SBATCH, _SBATCH_ELSEWHERE), "srun": (_SRUN, _SRUN_ELSEWHERE)}


def check_options(options: Mapping[str, Option], command: str, where: str) -> dict[str, Option]:
    """Returns the options under Slurm's spelling of their names, without the dashes in front.

    Args:
        options: names with `-` or `_`, to values.
        command: "sbatch" or "srun".
        where: the field they stand in, for errors.

    Raises:
        ExecutorError: for a name that `command` does not know or that has another place, or for a bad value.
    """
    checked: dict[str, Option] = {}
    for name, value in options.items():
        spelled = name.removeprefix("--") if name.startswith("--") else _legal(name, command, where)
        if value is False or not isinstance(value, str | int | None):
            raise ExecutorError(
                f"{where}[{name!r}] is {value!r}: give a string, an integer, or None for a bare flag"
            )
        if isinstance(value, str) and ("\n" in value or "\0" in value):
            raise ExecutorError(f"{where}[{name!r}] holds a line break or a NUL, which no option can carry")
        if spelled in checked:
            raise ExecutorError(f"{where} gives --{spelled} twice")
        checked[spelled] = None if value is True else value
    return checked


def _legal(name: str, command: str, where: str) -> str:
    known, elsewhere = _KNOWN[command]
    spelled = name.replace("_", "-")
    if spelled in elsewhere:
        raise ExecutorError(f"{where} cannot hold {name}: {elsewhere[spelled]}")
    if spelled not in known:
        near = difflib.get_close_matches(spelled, sorted(known | set(elsewhere)), n=3)
        valid = ", ".join(sorted(known))
        raise ExecutorError(
            f"{command} has no option --{spelled} ({where})"
            + (f"\n  did you mean {' or '.join(near)}?" if near else "")
            + f"\n  valid: {valid}"
            + f'\n  an option of a plugin or a later Slurm: write "--{spelled}"'
        )
    return spelled
