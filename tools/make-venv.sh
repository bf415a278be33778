#!/bin/sh
# make-venv.sh PYTHON VENV REQUIREMENT: an isolated environment with this checkout, editable, in it.
set -eu
python=$1 venv=$2 requirement=$3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "error: $python is older than Python 3.11; say PYTHON=/path/to/python3.11" >&2
  exit 2
}
if [ ! -x "$venv/bin/python" ]; then
  # Debian ships the venv module apart from the interpreter.
  "$python" -m venv "$venv" 2>/dev/null || {
    rm -rf "$venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
      "$python" -m venv "$venv"
    else
      echo "error: $python cannot make a virtual environment; install python3-venv" >&2
      exit 2
    fi
  }
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$requirement"
