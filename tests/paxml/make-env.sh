#!/usr/bin/env bash
# Builds the environment of real PAXML on a CPU. Usage: tests/paxml/make-env.sh PYTHON FOLDER
# FOLDER becomes a virtual environment of PYTHON (3.11); one that is complete is left as it is.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="${1:?which Python? usage: make-env.sh PYTHON FOLDER}"
venv="${2:?which folder? usage: make-env.sh PYTHON FOLDER}"
stamp="$venv/.complete"
wanted="$(cat "$here/requirements.txt" "$here/cloudai_run_tracking_alias.py" | sha256sum)"

if [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
  echo "$venv is complete"
  exit 0
fi

version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
if [[ "$version" != 3.11 ]]; then
  echo "error: PAXML 1.4.0 needs Python 3.11, and $python is $version" >&2
  exit 1
fi

rm -rf "$venv"
"$python" -m venv "$venv"
# The pins are a whole environment; pip's resolver would refuse some of PAXML's declared ranges.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"

site="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
cp "$here/cloudai_run_tracking_alias.py" "$site/"
echo "import cloudai_run_tracking_alias" >"$site/cloudai_run_tracking_alias.pth"

CUDA_VISIBLE_DEVICES='' JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=2 "$venv/bin/python" -c '
import paxml.tasks.lm.params.nvidia
import jax
print("PAXML ready, jax", jax.__version__)' 2>&1 | tail -n 1
echo "$wanted" >"$stamp"
