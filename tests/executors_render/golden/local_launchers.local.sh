#!/bin/bash
# Job launchers on this machine: self, torchrun.
# Made by cloudai-run from a plan: change the plan, not this file.
# Each stage's start and end go to stages.jsonl in the run folder, its output to logs/STAGE.
# What stands in single quotes reaches the program as it stands.
# shellcheck disable=SC2016

cr_run_dir=/runs/llama3_8b/llama3_8b_1700000000/train
cr_attempt=0
cr_job_id=null

stage_self() {
  set -- nemo trainer.devices=2
  unset SLURM_NTASKS # or the program would take this one process for one rank of many
  spawn 1 "$@"
}

stage_torchrun() {
  set -- torchrun --standalone --nproc-per-node=2 --no-python \
    bash -c '
      SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK SLURM_NODEID=$GROUP_RANK
      program=("$@" "--rank=${SLURM_PROCID}")
      if [[ " 1 " == *" $SLURM_PROCID "* ]]; then
        nsys=nsys
        if ! command -v "$nsys" >/dev/null; then
          echo "error: no $nsys on $(hostname): rank $SLURM_PROCID was to be profiled" >&2
          exit 127
        fi
        program=(nsys profile -s none --capture-range=cudaProfilerApi --capture-range-end=stop --cuda-graph-trace=node --force-overwrite true
          -o "/runs/llama3_8b/llama3_8b_1700000000/train/nsys/launchers.torchrun.rank${SLURM_PROCID}" "${program[@]}")
      fi
      exec "${program[@]}"' bash \
    nemo
  unset SLURM_NTASKS # or the program would take this one process for one rank of many
  spawn 1 "$@"
}

# ---- How stages are run, checked and recorded: the same in every script.

# Appends a line of JSON to stages.jsonl, and prints it too: a full disk need not take the record.
record() { # EVENT EXIT_CODE REASON
  local line reason=null format
  [[ -z $3 ]] || reason=$(json_text "$3")
  format='{"attempt": %d, "stage": "%s", "event": "%s", "time_unix_s": %s, '
  format+='"exit_code": %s, "reason": %s, "nodes": [%s], "job_id": %s}'
  # shellcheck disable=SC2059
  printf -v line "$format" "$cr_attempt" "$cr_stage" "$1" "$(date +%s.%3N)" \
    "$2" "$reason" "$cr_stage_nodes" "$cr_job_id"
  printf '%s\n' "$line"
  if printf '%s%s\n' "$cr_mend" "$line" >>"$cr_run_dir/stages.jsonl"; then
    cr_mend=''
  else
    cr_mend=$'\n' # part of the line may have been written
    echo "cloudai-run: cannot write $cr_run_dir/stages.jsonl" >&2
  fi
}

json_text() { # TEXT
  local LC_ALL=C text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

use_nodes() { # NUMBER: the first nodes of the allocation, for the records
  cr_stage_nodes=$(printf ', "%s"' "${cr_nodes[@]:0:$1}")
  cr_stage_nodes=${cr_stage_nodes#, }
}

# Runs stage_NAME, then check_NAME if there is one. A stage that fails ends the job with its exit code.
run_stage() { # NAME NODES LIMIT_S (0: none)
  [[ -z $cr_stopped ]] || exit 143
  cr_stage=$1 cr_reason='' cr_logs=$cr_run_dir/logs/$1/attempt-$cr_attempt
  use_nodes "$2"
  record start null ''
  mkdir -p "$cr_logs"
  start_stage "$1" "$3"
  if ((cr_code == 0)) && declare -F "check_$1" >/dev/null; then
    "check_$1"
  fi
  if [[ -n $cr_stopped ]]; then
    ((cr_code != 0)) || cr_code=143
    cr_reason="the job was told to end (cancelled, out of time, or a node was lost)"
  fi
  record end "$cr_code" "$cr_reason"
  cr_stage=''
  if ((cr_code != 0)); then
    echo "cloudai-run: stage $1 failed with exit code $cr_code${cr_reason:+: $cr_reason}" >&2
    echo "cloudai-run: its logs are in $cr_logs" >&2
    exit "$cr_code"
  fi
}

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

# What Slurm would tell each rank of a job on one node.
slurm_variables() { # RANKS JOB_NAME
  export SLURM_JOB_ID="${SLURM_JOB_ID:-$$}" SLURM_JOB_NAME="$2" SLURM_NODEID=0 SLURM_STEP_ID=0
  export SLURM_NNODES=1 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS="$1" SLURM_NPROCS="$1" SLURM_NTASKS_PER_NODE="$1"
  export SLURM_JOB_NODELIST=localhost SLURM_NODELIST=localhost SLURM_STEP_NODELIST=localhost
}

on_exit() {
  local code=$?
  trap - EXIT
  set +efux +o pipefail
  if [[ -n $cr_stage ]]; then # it ended within the set-up
    record end "$code" "${cr_reason:-a line of the set-up failed}"
    echo "cloudai-run: $cr_stage failed with exit code $code${cr_reason:+: $cr_reason}" >&2
  fi
  exit "$code"
}

# ---- The job.
cr_stage='' cr_stage_nodes='' cr_reason='' cr_stopped='' cr_mend=''
trap on_exit EXIT
trap 'cr_stopped=1' TERM INT
cr_nodes=("$(uname -n)")
mkdir -p "$cr_run_dir/nsys"
run_stage self 1 0
run_stage torchrun 1 0
