#!/bin/bash
#SBATCH --account=a
#SBATCH --gpus-per-node=8
#SBATCH --job-name=grok1
#SBATCH --no-requeue
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --open-mode=append
#SBATCH --output=/lustre/runs/grok1/slurm-%j.out
#SBATCH --partition=p
#SBATCH --time=60

# Job grok1, stage by stage: load-image0, prepare, profile, convert, check, perf.
# Made by cloudai-run from a plan: change the plan, not this file.
# Each stage's start and end go to stages.jsonl in the run folder, its output to logs/STAGE.
# What stands in single quotes reaches the program as it stands.
# shellcheck disable=SC2016

cr_run_dir=/lustre/runs/grok1
cr_attempt=${SLURM_RESTART_COUNT:-0} # counts how often Slurm has started this job again
cr_job_id=$SLURM_JOB_ID

stage_load-image0() {
  set -- srun \
    --nodes="$SLURM_NNODES" \
    --ntasks="$SLURM_NNODES" \
    --ntasks-per-node=1 \
    --mpi=none \
    --export=ALL \
    --kill-on-bad-exit=1 \
    --label \
    --output="$cr_logs/node-%n-%N.log" \
    --container-image='nvcr.io#nvidia/paxml:24.08' \
    --container-name="image0_${SLURM_JOB_ID}_${cr_attempt}" \
    --container-mounts=/lustre/runs/grok1:/lustre/runs/grok1 \
    --no-container-mount-home \
    true
  exec "$@"
}

stage_prepare() {
  set -- srun \
    --nodes=1 \
    --ntasks=1 \
    --ntasks-per-node=1 \
    --mpi=none \
    --export=ALL \
    --kill-on-bad-exit=1 \
    --label \
    --output="$cr_logs/node-%n-%N.log" \
    --container-name="image0_${SLURM_JOB_ID}_${cr_attempt}" \
    --container-mounts=/lustre/runs/grok1:/lustre/runs/grok1 \
    --no-container-mount-home \
    python3 -c \
    'import os, sys
folder, *files = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
for name, text in zip(files[::2], files[1::2]):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
' \
    /lustre/runs/grok1/paxml cloudai_run_rank.py '...
' cloudai_run_pgle.py '...
'
  exec "$@"
}

stage_profile() {
  set -- srun \
    --nodes="$SLURM_NNODES" \
    --ntasks="$((SLURM_NNODES * 8))" \
    --ntasks-per-node=8 \
    --mpi=none \
    --export=ALL \
    --kill-on-bad-exit=1 \
    --label \
    --output="$cr_logs/node-%n-%N.log" \
    --container-name="image0_${SLURM_JOB_ID}_${cr_attempt}" \
    --container-mounts=/lustre/runs/grok1:/lustre/runs/grok1 \
    --no-container-mount-home \
    --container-env=ENABLE_TE,NVTE_FUSED_ATTN,XLA_FLAGS,XLA_PYTHON_CLIENT_MEM_FRACTION \
    bash -c '
      program=("$@" "--server_addr=${head_node_ip}:job-${SLURM_JOB_ID}" "--num_hosts=${SLURM_NTASKS}" "--host_idx=${SLURM_PROCID}")
      if [[ " 0 " == *" $SLURM_PROCID "* ]]; then
        nsys=nsys
        if ! command -v "$nsys" >/dev/null; then
          echo "error: no $nsys on $(hostname): rank $SLURM_PROCID was to be profiled" >&2
          exit 127
        fi
        program=(nsys profile -s none --cuda-graph-trace=node --force-overwrite true
          -o "/lustre/runs/grok1/nsys/grok1.profile.rank${SLURM_PROCID}" "${program[@]}")
      fi
      exec "${program[@]}"' bash \
    python3 -u /lustre/runs/grok1/paxml/cloudai_run_rank.py \
    --fdl_config=paxml.tasks.lm.params.nvidia.Grok "--fdl.CHECKPOINT_POLICY='save_iteration_input'" \
    --fdl.COMBINE_QKV=False '--fdl.DCN_MESH_SHAPE=[1, 1, 1, 1]' "--fdl.FPROP_DTYPE='bfloat16'" \
    '--fdl.ICI_MESH_SHAPE=[1, 1, 8, 1]' --fdl.MAX_STEPS=20 --fdl.NUM_GROUPS=8 \
    --fdl.PERCORE_BATCH_SIZE=1.0 --fdl.USE_EXPERT_PARALLEL=True --fdl.USE_FP8=True --fdl.USE_TE_DPA=True \
    --job_log_dir=/lustre/runs/grok1/paxml/profile --alsologtostderr=true \
    --enable_checkpoint_saving=false --multiprocess_gpu
  export ENABLE_TE=0
  export NVTE_FUSED_ATTN=1
  export XLA_FLAGS='--xla_disable_hlo_passes=rematerialization --xla_dump_hlo_pass_re=.* --xla_gpu_disable_async_collectives=ALLREDUCE,ALLGATHER,REDUCESCATTER,COLLECTIVEBROADCAST,ALLTOALL,COLLECTIVEPERMUTE --xla_gpu_enable_all_gather_combine_by_dim=false --xla_gpu_enable_highest_priority_async_stream=true --xla_gpu_enable_latency_hiding_scheduler=false --xla_gpu_enable_pipelined_all_gather=true --xla_gpu_enable_pipelined_all_reduce=true --xla_gpu_enable_pipelined_reduce_scatter=true --xla_gpu_enable_reduce_scatter_combine_by_dim=false --xla_gpu_enable_triton_gemm=false --xla_gpu_enable_triton_softmax_fusion=false --xla_gpu_enable_while_loop_double_buffering=true --xla_gpu_graph_level=0 --xla_gpu_run_post_layout_collective_pipeliner=false'
  export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9
  exec "$@"
}

check_profile() {
  every_rank_must_print "$((SLURM_NNODES * 8))" 'E2E time: Elapsed time for'
}

stage_convert() {
  set -- srun \
    --nodes=1 \
    --ntasks=1 \
    --ntasks-per-node=1 \
    --mpi=none \
    --export=ALL \
    --kill-on-bad-exit=1 \
    --label \
    --output="$cr_logs/node-%n-%N.log" \
    --container-name="image0_${SLURM_JOB_ID}_${cr_attempt}" \
    --container-mounts=/lustre/runs/grok1:/lustre/runs/grok1 \
    --no-container-mount-home \
    python3 /lustre/runs/grok1/paxml/cloudai_run_pgle.py convert --report \
    /lustre/runs/grok1/nsys/grok1.profile.rank0.nsys-rep --profile /lustre/runs/grok1/pgle/profile.pbtxt \
    --converter jax.tools.pgo_nsys_converter --capture whole
  exec "$@"
}

stage_check() {
  set -- srun \
    --nodes=1 \
    --ntasks=1 \
    --ntasks-per-node=1 \
    --mpi=none \
    --export=ALL \
    --kill-on-bad-exit=1 \
    --label \
    --output="$cr_logs/node-%n-%N.log" \
    --container-name="image0_${SLURM_JOB_ID}_${cr_attempt}" \
    --container-mounts=/lustre/runs/grok1:/lustre/runs/grok1 \
    --no-container-mount-home \
    python3 /lustre/runs/grok1/paxml/cloudai_run_pgle.py check --profile \
    /lustre/runs/grok1/pgle/profile.pbtxt
  exec "$@"
}

stage_perf() {
  set -- srun \
    --nodes="$SLURM_NNODES" \
    --ntasks="$((SLURM_NNODES * 8))" \
    --ntasks-per-node=8 \
    --mpi=none \
    --export=ALL \
    --kill-on-bad-exit=1 \
    --label \
    --output="$cr_logs/node-%n-%N.log" \
    --container-name="image0_${SLURM_JOB_ID}_${cr_attempt}" \
    --container-mounts=/lustre/runs/grok1:/lustre/runs/grok1 \
    --no-container-mount-home \
    --container-env=ENABLE_TE,NVTE_FUSED_ATTN,XLA_FLAGS,XLA_PYTHON_CLIENT_MEM_FRACTION \
    bash -c 'exec "$@" "--server_addr=${head_node_ip}:job-${SLURM_JOB_ID}" "--num_hosts=${SLURM_NTASKS}" "--host_idx=${SLURM_PROCID}"' bash \
    python3 -u /lustre/runs/grok1/paxml/cloudai_run_rank.py \
    --fdl_config=paxml.tasks.lm.params.nvidia.Grok "--fdl.CHECKPOINT_POLICY='save_iteration_input'" \
    --fdl.COMBINE_QKV=False '--fdl.DCN_MESH_SHAPE=[1, 1, 1, 1]' "--fdl.FPROP_DTYPE='bfloat16'" \
    '--fdl.ICI_MESH_SHAPE=[1, 1, 8, 1]' --fdl.MAX_STEPS=20 --fdl.NUM_GROUPS=8 \
    --fdl.PERCORE_BATCH_SIZE=1.0 --fdl.USE_EXPERT_PARALLEL=True --fdl.USE_FP8=True --fdl.USE_TE_DPA=True \
    --job_log_dir=/lustre/runs/grok1/paxml/perf --alsologtostderr=true --enable_checkpoint_saving=false \
    --multiprocess_gpu
  export ENABLE_TE=0
  export NVTE_FUSED_ATTN=1
  export XLA_FLAGS='--xla_disable_hlo_passes=rematerialization --xla_dump_hlo_pass_re=.* --xla_gpu_all_gather_combine_threshold_bytes=301989888 --xla_gpu_all_reduce_combine_threshold_bytes=301989888 --xla_gpu_enable_all_gather_combine_by_dim=false --xla_gpu_enable_highest_priority_async_stream=true --xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_enable_pipelined_all_gather=true --xla_gpu_enable_pipelined_all_reduce=true --xla_gpu_enable_pipelined_reduce_scatter=true --xla_gpu_enable_reduce_scatter_combine_by_dim=false --xla_gpu_enable_triton_gemm=false --xla_gpu_enable_triton_softmax_fusion=false --xla_gpu_enable_while_loop_double_buffering=true --xla_gpu_graph_level=0 --xla_gpu_pgle_profile_file_or_directory_path=/lustre/runs/grok1/pgle/profile.pbtxt --xla_gpu_reduce_scatter_combine_threshold_bytes=37748736 --xla_gpu_run_post_layout_collective_pipeliner=false --xla_gpu_use_memcpy_local_p2p=false'
  export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9
  exec "$@"
}

check_perf() {
  every_rank_must_print "$((SLURM_NNODES * 8))" 'E2E time: Elapsed time for'
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

every_rank_must_print() { # RANKS TEXT
  local missing
  missing=$(grep -hF -e "$2" -- "$cr_logs"/node-*.log | awk -v ranks="$1" '
    /^ *[0-9]+: / { printed[$1 + 0] = 1 }
    END {
      for (rank = 0; rank < ranks; rank++) if (!(rank in printed)) list[n++] = rank
      for (i = 0; i < n && i < 16; i++) printf "%s%d", (i ? ", " : ""), list[i]
      if (n > 16) printf " and %d more", n - 16
    }')
  [[ -n $missing ]] || return 0
  cr_code=65 cr_reason="of $1 ranks these did not print \"$2\": $missing"
  return 1
}

# pyxis keeps a named container on each node's disk after the job.
remove_containers() {
  timeout --kill-after=10 120 srun --nodes="$SLURM_NNODES" \
    --ntasks="$SLURM_NNODES" \
    --ntasks-per-node=1 \
    --mpi=none \
    --export=ALL \
    --output=/dev/null bash -c '
    command -v enroot >/dev/null || exit 0
    for name; do
      enroot remove --force "pyxis_$name" || enroot remove --force "pyxis_${SLURM_JOB_ID}_$name"
    done
    exit 0' bash "image0_${SLURM_JOB_ID}_${cr_attempt}"
}

on_exit() {
  local code=$?
  trap - EXIT
  set +efux +o pipefail
  if [[ -n $cr_stage ]]; then # it ended within the set-up
    record end "$code" "${cr_reason:-a line of the set-up failed}"
    echo "cloudai-run: $cr_stage failed with exit code $code${cr_reason:+: $cr_reason}" >&2
  fi
  [[ -n $cr_stopped || -z ${cr_loaded-} ]] || remove_containers
  [[ ! -f $cr_messages ]] || rm -f -- "$cr_messages"
  [[ -n $cr_stopped || -z ${cr_followers-} ]] || wait "${cr_followers[@]}" # for the end of rank-0.log
  exit "$code"
}

# ---- The job.
cr_stage='' cr_stage_nodes='' cr_reason='' cr_stopped='' cr_mend=''
trap on_exit EXIT
cr_messages=$(mktemp) || cr_messages=/dev/stderr
trap 'cr_stopped=1' TERM
trap : USR1 USR2 # of sbatch --signal=B:...; the set-up may do something with them
mapfile -t cr_nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST" || echo "$SLURM_JOB_NODELIST")
mkdir -p "$cr_run_dir/nsys"
cr_stage=set-up
use_nodes 1
record start null ''
set -eo pipefail # the first of these lines that fails ends the job
head_node_ip=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
export head_node_ip
set +efux +o pipefail
record end 0 ''
cr_stage=''
cr_loaded=1
run_stage load-image0 "$SLURM_NNODES" 0
run_stage prepare 1 0
run_stage profile "$SLURM_NNODES" 0
run_stage convert 1 0
run_stage check 1 0
run_stage perf "$SLURM_NNODES" 0
