"""By which way a variable reaches a rank.

Most are exported in the script, and srun carries them to every rank. Some would change the script's own shell
or srun's loader, or Slurm sets them anew on the rank: those the program is given by `env NAME=VALUE` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cloudai_run.executors.slurm_options import names
from cloudai_run.executors.words import Word, literal

# bash sets these itself, refuses to set them, does not take them over, or works differently when they are set
# (bash(1) of 5.2, "Shell Variables"; names that begin with BASH are covered by the prefix).
_SHELL_OWN = names(
    "COLUMNS COMP_CWORD COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS COPROC "
    "DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME FUNCNEST GROUPS HISTCMD IFS LINENO LINES MAPFILE "
    "OLDPWD OPTARG OPTERR OPTIND PATH PIPESTATUS POSIXLY_CORRECT PPID PS4 PWD RANDOM READLINE_ARGUMENT "
    "READLINE_LINE READLINE_MARK READLINE_POINT REPLY SECONDS SHELLOPTS SHLVL SRANDOM TIMEFORMAT TMOUT "
    "UID _"
)
# Slurm sets these for each task, after the environment of the step (srun(1) of 22.05 to 24.11, "OUTPUT
# ENVIRONMENT VARIABLES"; the devices come from the gres plugins,
# TMPDIR is set where the given one cannot be made).
_SLURM_OWN = names(
    "CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES SLURMD_DEBUG SLURMD_NODENAME "
    "SLURM_CLUSTER_NAME SLURM_CPUS_ON_NODE SLURM_GPUS_ON_NODE SLURM_GTIDS SLURM_JOBID "
    "SLURM_JOB_CPUS_PER_NODE SLURM_JOB_END_TIME SLURM_JOB_GID SLURM_JOB_GPUS SLURM_JOB_GROUP SLURM_JOB_ID "
    "SLURM_JOB_NAME SLURM_JOB_NODELIST SLURM_JOB_NUM_NODES SLURM_JOB_PARTITION SLURM_JOB_QOS "
    "SLURM_JOB_START_TIME SLURM_JOB_UID SLURM_JOB_USER SLURM_LAUNCH_NODE_IPADDR SLURM_LOCALID "
    "SLURM_MPI_TYPE SLURM_NNODES SLURM_NODEID SLURM_NODELIST SLURM_NPROCS SLURM_NTASKS "
    "SLURM_NTASKS_PER_NODE SLURM_PMIXP_ABORT_AGENT_PORT SLURM_PMIX_MAPPING_SERV SLURM_PRIO_PROCESS "
    "SLURM_PROCID SLURM_RESTART_COUNT SLURM_SRUN_COMM_HOST SLURM_SRUN_COMM_PORT SLURM_STEPID "
    "SLURM_STEP_GPUS SLURM_STEP_ID SLURM_STEP_LAUNCHER_PORT SLURM_STEP_NODELIST SLURM_STEP_NUM_NODES "
    "SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE SLURM_SUBMIT_DIR SLURM_SUBMIT_HOST "
    "SLURM_TASKS_PER_NODE SLURM_TASK_PID SLURM_TOPOLOGY_ADDR SLURM_TOPOLOGY_ADDR_PATTERN SLURM_UMASK "
    "SLURM_WORKING_CLUSTER TMPDIR ZE_AFFINITY_MASK"
)
# cr_: the script's own variables.
_ON_THE_RANK_PREFIXES = ("BASH", "LD_", "cr_")


@dataclass(frozen=True)
class SplitEnv:
    """An environment by the way it goes.

    Attributes:
        exported: in the script, carried by srun.
        on_rank: given to the program on the rank.
    """

    exported: dict[str, str]
    on_rank: dict[str, Word]


def exportable(name: str) -> bool:
    """Says whether the script may export a variable of this name."""
    return not (name in _SHELL_OWN or name in _SLURM_OWN or name.startswith(_ON_THE_RANK_PREFIXES))


def split_env(env: Mapping[str, Word]) -> SplitEnv:
    """Splits an environment by the way that each variable takes to the rank."""
    exported: dict[str, str] = {}
    on_rank: dict[str, Word] = {}
    for name, word in env.items():
        text = literal(word)
        if text is not None and exportable(name):
            exported[name] = text
        else:
            on_rank[name] = word
    return SplitEnv(exported, on_rank)
