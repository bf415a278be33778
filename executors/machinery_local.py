"""The fixed functions of a script for a run without Slurm: how ranks are started on this machine."""

from __future__ import annotations

START_STAGE = r"""
start_stage() { # NAME LIMIT_S: sets cr_code and cr_reason
  local began=$SECONDS out pid collector
  exec {out}> >(collect)
  collector=$!
  "stage_$1" >&"$out" 2>&1 {out}>&- &
  pid=$!
  exec {out}>&-
  wait "$pid"
  cr_code=$?
  while [[ -n $cr_stopped ]] && kill -TERM "$pid" 2>/dev/null; do # the signal ended the wait, not the stage
    wait "$pid"
    cr_code=$?
  done
  wait "$collector"
  if (($2 > 0 && SECONDS - began >= $2 && (cr_code == 124 || cr_code == 137))); then
    cr_code=124 cr_reason="ended at its time limit of $2 s"
  fi
}

# All ranks' output to the log of this machine, rank 0's to a file of its own and to the terminal.
collect() {
  trap '' TERM INT
  tee -- "$cr_logs/node-0-${cr_nodes[0]}.log" | sed -un 's/^0: //p' | tee -- "$cr_logs/rank-0.log"
}

# Starts a command once for each rank, each line of output labelled with the rank. The first rank that fails
# ends the others, and its exit code is the answer.
spawn() { # RANKS COMMAND...
  local cr_rank cr_left=$1 cr_pids=() cr_try
  shift
  trap 'kill "${cr_pids[@]}" 2>/dev/null' TERM
  cr_code=0
  for ((cr_rank = 0; cr_rank < cr_left; cr_rank++)); do
    SLURM_PROCID=$cr_rank SLURM_LOCALID=$cr_rank "$@" > >(LC_ALL=C exec sed -u "s/^/$cr_rank: /") 2>&1 &
    cr_pids+=("$!")
  done
  for ((; cr_left > 0; cr_left--)); do
    wait -n || { cr_code=$?; break; }
  done
  for ((cr_try = 0; cr_left > 0 && cr_try < 100; cr_try++)); do
    kill "${cr_pids[@]}" 2>/dev/null || break # none is left
    sleep 0.1
  done
  ((cr_left == 0)) || kill -KILL "${cr_pids[@]}" 2>/dev/null
  exit "$cr_code"
}
"""

SLURM_VARIABLES = r"""
# What Slurm would tell each rank of a job on one node.
slurm_variables() { # RANKS JOB_NAME
  export SLURM_JOB_ID="${SLURM_JOB_ID:-$$}" SLURM_JOB_NAME="$2" SLURM_NODEID=0 SLURM_STEP_ID=0
  export SLURM_NNODES=1 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS="$1" SLURM_NPROCS="$1" SLURM_NTASKS_PER_NODE="$1"
  export SLURM_JOB_NODELIST=localhost SLURM_NODELIST=localhost SLURM_STEP_NODELIST=localhost
}
"""

BEGIN = ("trap 'cr_stopped=1' TERM INT", 'cr_nodes=("$(uname -n)")')
