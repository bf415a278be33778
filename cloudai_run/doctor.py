"""Whether a launch from here would work: one check a line, each with what to do about it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cloudai_run import machine
from cloudai_run.config_file import ExecutorSpec
from cloudai_run.run_folders import nemorun_home

INSTALL_SMOKE = "pip install 'cloudai-run[smoke]'"
COMMAND_TIMEOUT_S = 20
MINIMUM_FREE_GB = 5


@dataclass(frozen=True)
class Check:
    """One line of the doctor's.

    Attributes:
        name: what was looked at.
        status: `ok`, `warn` (a launch may work) or `fail` (it will not).
        detail: what was found.
        advice: what to do, empty where nothing is to be done.
    """

    name: str
    status: str
    detail: str
    advice: str = ""


def examine(executor: ExecutorSpec) -> list[Check]:
    """Runs the checks that matter for this executor, the cheap ones first."""
    checks = [_python(), *_packages(), _run_folder()]
    image = executor.fields.get("container_image")
    if executor.kind == "slurm":
        checks += _slurm(executor.fields)
    else:
        checks += _local()
    if image is not None:
        checks.append(_image(str(image)))
    checks.append(_hugging_face(executor.fields))
    return checks


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"{found} at {sys.executable}")


def _packages() -> list[Check]:
    checks = []
    for name in ("nemo_run", "leptonai", "fiddle"):
        try:
            checks.append(Check(name, "ok", version(name)))
        except PackageNotFoundError:
            checks.append(Check(name, "fail", "not installed", f"pip install {name}"))
    probe = _run([sys.executable, "-c", "import nemo_run"])
    if probe.returncode != 0:
        last = probe.stderr.strip().splitlines()[-1:] or ["no message"]
        advice = "pip install 'leptonai<0.47'" if "leptonai" in last[0] else "reinstall cloudai-run"
        checks.append(Check("import nemo_run", "fail", last[0], advice))
    return checks


def _run_folder() -> Check:
    home = nemorun_home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home):
            pass
    except OSError as error:
        return Check(
            "run folder", "fail", f"{home}: {error.strerror}", "set NEMORUN_HOME to a writable folder"
        )
    free_gb = shutil.disk_usage(home).free / 1e9
    if free_gb < MINIMUM_FREE_GB:
        return Check(
            "run folder", "warn", f"{home}: {free_gb:.1f} GB free", "free some space or set NEMORUN_HOME"
        )
    return Check("run folder", "ok", f"{home} is writable, {free_gb:.0f} GB free")


def _local() -> list[Check]:
    count = machine.gpu_count()
    if machine.has_nemo():
        nemo = Check(
            "NeMo", "ok", f"nemo_toolkit {machine.versions().get('nemo_toolkit', 'of unknown version')}"
        )
    else:
        nemo = Check("NeMo", "fail", "not installed here", f"for smoke runs on the CPU: {INSTALL_SMOKE}")
    if count:
        return [Check("GPUs", "ok", f"{count} x {machine.gpu_model() or 'model unknown'}"), nemo]
    return [
        Check("GPUs", "warn", "none: runs here are CPU smoke runs, no benchmarks", "use run.executor=slurm"),
        nemo,
    ]


def _slurm(fields: Mapping[str, object]) -> list[Check]:
    if "tunnel" in fields:
        return [
            Check(
                "slurm",
                "warn",
                "behind an SSH tunnel: not looked at from here",
                "run doctor on the login node",
            )
        ]
    checks = []
    for command in ("sbatch", "srun", "sacct", "squeue", "scancel"):
        path = shutil.which(command)
        needed = "fail" if command in ("sbatch", "srun") else "warn"
        advice = (
            "run this on a login node of the cluster"
            if needed == "fail"
            else "states then come from scontrol"
        )
        checks.append(Check(command, "ok", path) if path else Check(command, needed, "not on PATH", advice))
    if shutil.which("sbatch"):
        checks.append(_test_only(fields))
    if shutil.which("sacct"):
        checks.append(_sacct())
    if shutil.which("srun") and fields.get("container_image"):
        checks.append(_container_options())
    checks.append(_shared(nemorun_home()))
    return checks


def _test_only(fields: Mapping[str, object]) -> Check:
    """Asks Slurm whether it would take such a job; nothing is submitted."""
    flags = {"account": "account", "partition": "partition", "qos": "qos", "nodes": "nodes", "time": "time",
             "reservation": "reservation", "constraint": "constraint"}  # fmt: skip
    argv = ["sbatch", "--test-only"]
    argv += [f"--{flag}={fields[name]}" for name, flag in flags.items() if fields.get(name) is not None]
    result = _run([*argv, "--wrap=true"])
    words = _last_line(result.stderr or result.stdout)
    if result.returncode == 0:
        return Check("sbatch --test-only", "ok", words)
    return Check("sbatch --test-only", "fail", words, "set run.executor.account= and run.executor.partition=")


def _sacct() -> Check:
    result = _run(["sacct", "--noheader", "--parsable2", "--format=JobID", "--starttime=now"])
    if result.returncode == 0:
        return Check("accounting", "ok", "sacct answers")
    return Check("accounting", "warn", _last_line(result.stderr), "states then come from scontrol")


def _last_line(text: str) -> str:
    """What a command of Slurm's said at last, without its name before it."""
    lines = text.strip().splitlines()
    return re.sub(r"^(sbatch|sacct): ", "", lines[-1]) if lines else "it failed and said nothing"


def _container_options() -> Check:
    result = _run(["srun", "--help"])
    if "--container-image" in result.stdout:
        return Check("container options", "ok", "srun knows --container-image")
    return Check(
        "container options",
        "fail",
        "srun does not know --container-image",
        "pyxis is missing: unset container_image",
    )


def _shared(folder: Path) -> Check:
    """Says what kind of file system the run folder is on: every node must see it."""
    mounts = []
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind = line.split(" ")[:3]
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), point)
        if Path(point) == folder or Path(point) in folder.parents:
            mounts.append((len(point), kind))
    kind = max(mounts)[1] if mounts else "unknown"
    if kind in (
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "cephfs",
        "ceph",
        "wekafs",
        "panfs",
        "fuse.juicefs",
    ):
        return Check("shared run folder", "ok", f"{folder} is on {kind}")
    return Check(
        "shared run folder", "warn", f"{folder} is on {kind}", "every node must see it: set NEMORUN_HOME"
    )


def _image(image: str) -> Check:
    if image.startswith(("/", "./")) or image.endswith(".sqsh"):
        path = Path(image)
        if not path.is_file():
            return Check(
                "container image", "fail", f"{image}: no such file", "give the path of a .sqsh or a registry"
            )
        if not os.access(path, os.R_OK):
            return Check("container image", "fail", f"{image}: not readable", f"chmod +r {image}")
        return Check("container image", "ok", f"{image}, {path.stat().st_size / 1e9:.1f} GB")
    return Check("container image", "ok", f"{image} (from a registry: each node pulls it)")


def _hugging_face(fields: Mapping[str, object]) -> Check:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    has_token = "HF_TOKEN" in os.environ or (home / "token").is_file()
    cache = f"cache {home}" if home.is_dir() else f"no cache at {home}"
    if has_token:
        secrets = fields.get("secrets") or ()
        named = isinstance(secrets, Sequence) and "HF_TOKEN" in secrets
        advice = "" if named else 'name it for the job: run.executor.secrets=["HF_TOKEN"]'
        return Check("Hugging Face", "ok", f"token found, {cache}", advice)
    return Check(
        "Hugging Face", "warn", f"no token, {cache}", "gated tokenizers (Llama) need HF_TOKEN; mock data none"
    )


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"no answer in {COMMAND_TIMEOUT_S} s")
