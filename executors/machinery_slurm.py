"""The fixed functions of a script for sbatch: how sruns are started and what the end of the job takes."""

from __future__ import annotations

START_STAGE = r"""
start_stage() { # NAME LIMIT_S: sets cr_code and cr_reason
  local began=$SECONDS pid
  "stage_$1" >"$cr_messages" 2>&1 & # srun's own messages: the output of the ranks goes to the stage's logs
  pid=$!
  [[ ! -f $cr_messages ]] || show_messages "$pid" &
  cr_followers+=("$!")
  follow_rank_0 "$pid" 2>/dev/null &
  cr_followers+=("$!")
  wait "$pid"
  cr_code=$?
  while kill -0 "$pid" 2>/dev/null; do # a signal ended the wait, not the stage
    wait "$pid"
    cr_code=$?
  done
  if (($2 > 0 && SECONDS - began >= $2 && (cr_code == 124 || cr_code == 137))); then
    cr_code=124 cr_reason="ended at its time limit of $2 s"
  elif ((cr_code != 0)); then
    find_cause
  fi
}

show_messages() { # PID of the stage's command
  trap '' TERM
  tail -n +1 -s 0.1 --pid="$1" -f -- "$cr_messages" >&2
}

# Copies rank 0's lines from the log of its node to rank-0.log as they come, at no cost to any rank.
follow_rank_0() { # PID of the stage's command
  local over='' log
  trap '' TERM
  while :; do
    kill -0 "$1" || over=1
    log=("$cr_logs"/node-0-*.log)
    [[ ! -e ${log[0]} ]] || break
    [[ -z $over ]] || return 0
    sleep 0.2
  done
  tail -n +1 -s 0.1 --pid="$1" -f -- "${log[0]}" | sed -un 's/^ *0: //p' >"$cr_logs/rank-0.log"
}

# srun answers with the highest exit code, among them those of the ranks that it ended because one had failed.
# The first rank that it names is the cause.
find_cause() {
  local first
  first=$(grep -m 1 -E '^srun: error: [^:]+: tasks? [^:]+: ' "$cr_messages" ||
    grep -m 1 '^srun: error: ' "$cr_messages")
  cr_reason=${first#srun: error: }
  case $first in
    *': Exited with exit code '*[0-9]) cr_code=${first##* } ;;
    *': Aborted'*) cr_code=134 ;;
    *': Killed'* | *': Out Of Memory'*) cr_code=137 ;;
    *': Segmentation fault'*) cr_code=139 ;;
  esac
  # What a rank without nsys says, and what pyxis says.
  first=$(grep -h -s -o -m 1 -E 'error: (no .* was to be profiled|pyxis: .*)' -- "$cr_messages" "$cr_logs"/node-*.log |
    head -n 1)
  cr_reason+=${first:+: ${first#error: }}
}
"""

NO_REQUEUE = r"""
no_requeue() {
  scontrol update "jobid=$SLURM_JOB_ID" requeue=0 || echo "cloudai-run: cannot turn requeueing off" >&2
}
"""

BEGIN = (
    "cr_messages=$(mktemp) || cr_messages=/dev/stderr",
    "trap 'cr_stopped=1' TERM",
    "trap : USR1 USR2 # of sbatch --signal=B:...; the set-up may do something with them",
    'mapfile -t cr_nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST" || echo "$SLURM_JOB_NODELIST")',
)
LAST = (
    '[[ ! -f $cr_messages ]] || rm -f -- "$cr_messages"',
    '[[ -n $cr_stopped || -z ${cr_followers-} ]] || wait "${cr_followers[@]}" # for the end of rank-0.log',
)


_REMOVE_CONTAINERS = r"""
# pyxis keeps a named container on each node's disk after the job.
remove_containers() {
  timeout --kill-after=10 120 srun @OPTIONS@ bash -c '
    command -v enroot >/dev/null || exit 0
    for name; do
      enroot remove --force "pyxis_$name" || enroot remove --force "pyxis_${SLURM_JOB_ID}_$name"
    done
    exit 0' bash @NAMES@
}
"""


def remove_containers(options: list[str], names: list[str]) -> str:
    """Returns the function that removes the job's named containers from every node.

    Args:
        options: of its srun, quoted.
        names: names of the containers, quoted.
    """
    lines = " \\\n    ".join(options)
    return _REMOVE_CONTAINERS.replace("@NAMES@", " ".join(names)).replace("@OPTIONS@", lines)
