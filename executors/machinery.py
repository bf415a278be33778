"""The fixed functions of every script: how stages are run, checked and recorded.

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
  local LC_ALL=C text=${1//\\/\\\\}
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

READ_SECRETS = r"""
# Exports the named variables from a file that only its owner reads: NAME=VALUE, ended by a NUL, or lines.
read_secrets() { # FILE NAME...
  local file=$1 pair line name
  shift
  if [[ ! -r $file || $(stat -c %a -- "$file") != [64]00 ]]; then
    cr_reason="the secrets' file $file is not there, or not of mode 600"
    return 1
  fi
  {
    while IFS= read -r -d '' pair; do keep_secret "$pair" "$@"; done
    while IFS= read -r line; do keep_secret "$line" "$@"; done < <(printf '%s\n' "$pair") # what no NUL ends
  } <"$file"
  for name; do
    [[ -n ${!name+set} ]] || { cr_reason="the secrets' file $file has no $name"; return 1; }
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

BEGIN = (
    "cr_stage='' cr_stage_nodes='' cr_reason='' cr_stopped='' cr_mend=''",
    "trap on_exit EXIT",
)


_ON_EXIT = r"""
on_exit() {
  local code=$?
  trap - EXIT
  set +efux +o pipefail
  if [[ -n $cr_stage ]]; then # it ended within the set-up
    record end "$code" "${cr_reason:-a line of the set-up failed}"
    echo "cloudai-run: $cr_stage failed with exit code $code${cr_reason:+: $cr_reason}" >&2
  fi
LAST  exit "$code"
}
"""


def on_exit(last: list[str]) -> str:
    """Returns the function that ends the job; `last` are lines that must not change its exit code."""
    return _ON_EXIT.replace("LAST", "".join(f"  {line}\n" for line in last))
