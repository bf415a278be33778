"""The fixed functions of a job's script: how stages are run, checked and recorded.

They are plain bash (4.4 and later) and the same in every script; a script gets those that it uses. Their
variables begin with `cr_`.
"""

from __future__ import annotations

# Exit codes of a stage that exited with 0 and failed all the same (sysexits.h: wrong data, no input).
GATE_EXIT_CODE = 65
ARTIFACT_EXIT_CODE = 66
TIMEOUT_EXIT_CODE = 124
"""As GNU timeout answers."""

RECORD = r"""
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
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

use_nodes() { # NUMBER: the first nodes of the allocation, for the records
  cr_stage_nodes=$(printf ', "%s"' "${cr_nodes[@]:0:$1}")
  cr_stage_nodes=${cr_stage_nodes#, }
}
"""

RUN_STAGE = r"""
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
"""

MUST_PRINT = r"""
must_print() { # TEXT
  grep -qF -e "$1" -- "$cr_logs"/node-*.log && return
  cr_code=65 cr_reason="its output does not hold: $1"
  return 1
}
"""

EVERY_RANK_MUST_PRINT = r"""
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
"""

MUST_EXIST = r"""
must_exist() { # PATH HINT
  local how='is missing'
  for _ in 1 2 3; do # a shared file system may show the file of another node late
    [[ ! -s $1 ]] || return 0
    sleep 1
  done
  [[ ! -e $1 ]] || how='is empty'
  cr_code=66 cr_reason="$1 $how${2:+: $2}"
  return 1
}
"""

START_WITH_SRUN = r"""
start_stage() { # NAME LIMIT_S: sets cr_code and cr_reason
  local began=$SECONDS pid
  "stage_$1" >"$cr_messages" 2>&1 & # srun's own messages: the output of the ranks goes to the stage's logs
  pid=$!
  [[ ! -f $cr_messages ]] || show_messages "$pid" &
  follow_rank_0 "$pid" 2>/dev/null &
  wait "$pid"
  cr_code=$?
  while [[ -n $cr_stopped ]] && kill -0 "$pid" 2>/dev/null; do # the signal ended the wait, not the stage
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
}
"""

READ_SECRETS = r"""
# Exports the named variables from a file that only its owner may read: NAME=VALUE, each ended by a NUL, or lines.
read_secrets() { # FILE NAME...
  local file=$1 pair line name
  shift
  if [[ ! -r $file || $(stat -c %a -- "$file") != [64]00 ]]; then
    echo "cloudai-run: the secrets' file $file is not there, or not of mode 600" >&2
    return 1
  fi
  {
    while IFS= read -r -d '' pair; do keep_secret "$pair" "$@"; done
    while IFS= read -r line; do keep_secret "$line" "$@"; done < <(printf '%s\n' "$pair") # what no NUL ends
  } <"$file"
  for name; do
    [[ -n ${!name+set} ]] || { echo "cloudai-run: the secrets' file $file has no $name" >&2; return 1; }
  done
}

keep_secret() { # NAME=VALUE NAME...
  local name pair=$1
  shift
  for name; do
    [[ $pair != "$name="* ]] || export "${pair?}"
  done
}
"""

NO_REQUEUE = r"""
no_requeue() {
  scontrol update "jobid=$SLURM_JOB_ID" requeue=0 || echo "cloudai-run: cannot turn requeueing off" >&2
}
"""

BEGIN = (
    "cr_stage='' cr_stage_nodes='' cr_stopped='' cr_mend='' cr_loaded=''",
    "cr_messages=$(mktemp) || cr_messages=/dev/stderr",
    "trap 'cr_stopped=1' TERM",
    "trap on_exit EXIT",
)
BEGIN_SLURM = (
    'mapfile -t cr_nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST" || echo "$SLURM_JOB_NODELIST")',
)


def on_exit(last: list[str]) -> str:
    """Returns the function that ends the job; `last` are lines that none may change its exit code."""
    lines = "".join(f"  {line}\n" for line in last)
    return f"""
on_exit() {{
  local code=$?
  trap - EXIT
  if [[ -n $cr_stage ]]; then # it ended within a stage or the set-up
    record end "$code" 'the script ended'
    echo "cloudai-run: $cr_stage failed with exit code $code" >&2
  fi
  [[ ! -f $cr_messages ]] || rm -f -- "$cr_messages"
{lines}  [[ -n $cr_stopped ]] || wait # for the end of rank-0.log
  exit "$code"
}}
"""


def remove_containers(srun: str, names: str) -> str:
    """Returns the function that removes the job's named containers from every node.

    Args:
        srun: options of its srun, quoted.
        names: names of the containers, quoted.
    """
    return f"""
# pyxis keeps a named container on each node's disk after the job.
remove_containers() {{
  timeout --kill-after=10 120 srun {srun} bash -c '
    command -v enroot >/dev/null || exit 0
    for name; do
      enroot remove --force "pyxis_$name" || enroot remove --force "pyxis_${{SLURM_JOB_ID}}_$name"
    done
    exit 0' bash {names}
}}
"""
