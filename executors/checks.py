"""What a plan's dataclasses refuse when they are made, so that a mistake is named before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.slurm_options import check_options

if TYPE_CHECKING:
    from cloudai_run.executors import plan as p

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Linux refuses to start a program with one argument or NAME=VALUE above 32 pages, its NUL included (execve(2), MAX_ARG_STRLEN).
MAX_STRING_BYTES = 32 * 4096 - 1
# Lightning's SLURMEnvironment takes a job of one of these names for an interactive shell.
_INTERACTIVE_JOB_NAMES = ("bash", "interactive")


def env_name(name: str, where: str) -> None:
    """Refuses what is no name of an environment variable."""
    if not isinstance(name, str) or not ENV_NAME.fullmatch(name):
        raise ExecutorError(
            f"{name!r} ({where}) is no name of an environment variable"
            "\n  right: letters, digits and _, the first one no digit"
        )


def text(value: str, where: str) -> None:
    """Refuses what no argument and no environment variable can carry."""
    if not isinstance(value, str):
        raise ExecutorError(f"{where} is {value!r}: it must be a string")
    if "\0" in value:
        raise ExecutorError(f"{where} holds a NUL character, which no program can be given")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ExecutorError(f"{where} holds {value[error.start]!r}, which UTF-8 cannot write") from None


def word(value: p.Word, where: str, prefix_bytes: int = 0) -> None:
    """Refuses a word that is neither text nor a variable of the rank, or too long."""
    pieces = value if isinstance(value, tuple) else (value,)
    literal = [piece for piece in pieces if not _is_node_var(piece)]
    for piece in literal:
        text(piece, where)
    size = prefix_bytes + sum(len(piece.encode("utf-8")) for piece in literal)
    if size > MAX_STRING_BYTES:
        raise ExecutorError(
            f"{where} has {size} bytes, and Linux starts no program with a string above {MAX_STRING_BYTES}"
            "\n  put the value into a file of the run folder and pass its path"
        )


def _is_node_var(piece: object) -> bool:
    from cloudai_run.executors.plan import NodeVar

    return isinstance(piece, NodeVar)


def environment(env: Mapping[str, p.Word], where: str) -> None:
    """Refuses names and values that a process cannot be given."""
    for name, value in env.items():
        env_name(name, where)
        word(value, f"{where}[{name!r}]", prefix_bytes=len(name) + 1)


def file_name(name: str, where: str) -> None:
    """Refuses a name that could not stand in a path, a record and a log as it is."""
    if not _FILE_NAME.fullmatch(name) or len(name) > 100:
        raise ExecutorError(
            f"{where} is {name!r}: it must be letters, digits, '.', '_' and '-', the first a letter or digit, at most 100"
        )


def absolute(path: str, where: str) -> None:
    """Refuses a path that means another place on another node or in another directory."""
    text(path, where)
    if not path.startswith("/"):
        raise ExecutorError(f"{where} is {path!r}: it must be an absolute path")
    if "\n" in path:
        raise ExecutorError(f"{where} is {path!r}: a line break in a path is not supported")


def at_least(number: int | None, least: int, where: str) -> None:
    """Refuses a number below `least`, and what is no whole number."""
    if number is not None and (type(number) is not int or number < least):
        raise ExecutorError(f"{where} is {number!r}: it must be a whole number of at least {least}")


def nsys(spec: p.Nsys) -> None:
    """Checks an Nsys when it is made."""
    from cloudai_run.executors.nsys import merged_options

    if not spec.ranks or len(set(spec.ranks)) != len(spec.ranks):
        raise ExecutorError(f"Nsys.ranks is {spec.ranks!r}: it must name at least one rank, each once")
    for rank in spec.ranks:
        at_least(rank, 0, "Nsys.ranks")
    text(spec.binary, "Nsys.binary")
    merged_options(spec)


def gate(spec: p.Gate) -> None:
    """Checks a Gate when it is made."""
    text(spec.text, "Gate.text")
    if not spec.text or "\n" in spec.text:
        raise ExecutorError(f"Gate.text is {spec.text!r}: it must be text within one line of the output")


def artifact(spec: p.Artifact) -> None:
    """Checks an Artifact when it is made."""
    for name in ("path", "hint"):
        text(getattr(spec, name), f"Artifact.{name}")
        if "\n" in getattr(spec, name):
            raise ExecutorError(f"Artifact.{name} is {getattr(spec, name)!r}: it must be one line")
    if not spec.path:
        raise ExecutorError("Artifact.path is empty")


def container(spec: p.Container) -> None:
    """Checks a Container when it is made."""
    text(spec.image, "Container.image")
    if not spec.image:
        raise ExecutorError("Container.image is empty: a stage without a container has container=None")
    for mount in spec.mounts:
        text(mount, "Container.mounts")
        if not re.fullmatch(r"[^:,\n]+:/[^:,\n]*(:[^:,\n]+)?", mount):
            raise ExecutorError(
                f"{mount!r} in Container.mounts is no mount"
                "\n  right: SOURCE:TARGET or SOURCE:TARGET:FLAGS, TARGET absolute, no comma within"
            )
    if spec.workdir is not None:
        absolute(spec.workdir, "Container.workdir")
    if spec.save is not None:
        absolute(spec.save, "Container.save")


def secrets(spec: p.Secrets) -> None:
    """Checks a Secrets when it is made."""
    for name in spec.names:
        env_name(name, "Secrets.names")
    absolute(spec.path, "Secrets.path")


def stage(spec: p.Stage) -> None:
    """Checks a Stage by itself when it is made."""
    file_name(spec.name, "Stage.name")
    where = f"stage {spec.name}"
    if bool(spec.argv) == bool(spec.script):
        raise ExecutorError(f"{where} must have either argv or script")
    for at, value in enumerate(spec.command):
        word(value, f"{where}: argument {at}")
    if not spec.command[0]:
        raise ExecutorError(f"{where}: the name of its program is empty")
    environment(spec.env, f"{where}: env")
    at_least(spec.timeout_s, 1, f"{where}: timeout_s")
    at_least(spec.nodes, 1, f"{where}: nodes")
    at_least(spec.ntasks_per_node, 1, f"{where}: ntasks_per_node")
    if spec.workdir is not None:
        absolute(spec.workdir, f"{where}: workdir")
    check_options(spec.srun, "srun", f"{where}: srun")


def plan(spec: p.Plan) -> None:
    """Checks that a Plan's parts fit together when it is made."""
    file_name(spec.job_name, "job_name")
    if spec.job_name in _INTERACTIVE_JOB_NAMES:
        raise ExecutorError(
            f"the job cannot be called {spec.job_name!r}: Lightning takes a job of that name for an interactive shell,"
            " ignores Slurm and hangs"
        )
    absolute(spec.run_dir, "run_dir")
    environment(spec.env, "Plan.env")
    text(spec.setup, "Plan.setup")
    at_least(spec.retries, 0, "retries")
    if not spec.stages:
        raise ExecutorError("a plan needs at least one stage")
    for name in spec.containers:
        file_name(name, "the name of a container")
    _stage_names(spec)
    for one in spec.stages:
        _stage_in_plan(one, spec)
    if spec.secrets is not None:
        _secrets_in_plan(spec.secrets, spec)


def _stage_names(spec: p.Plan) -> None:
    names = [one.name for one in spec.stages]
    for name in names:
        if names.count(name) > 1:
            raise ExecutorError(f"two stages are called {name}: their logs and records would mix")


def _stage_in_plan(one: p.Stage, spec: p.Plan) -> None:
    if one.container is not None and one.container not in spec.containers:
        raise ExecutorError(
            f"stage {one.name} names the container {one.container!r}; the plan has {_listed(spec.containers)}"
        )
    if one.nodes is not None and one.nodes > spec.directives.num_nodes:
        raise ExecutorError(
            f"stage {one.name} wants {one.nodes} nodes; the job has {spec.directives.num_nodes}"
        )
    if (one.ntasks_per_node or 1) > spec.directives.ntasks_per_node:
        raise ExecutorError(
            f"stage {one.name} wants {one.ntasks_per_node} tasks a node; the job has {spec.directives.ntasks_per_node}"
        )


def _secrets_in_plan(secret: p.Secrets, spec: p.Plan) -> None:
    if f"{secret.path}/".startswith(f"{spec.run_dir.rstrip('/')}/"):
        raise ExecutorError(
            f"the secrets' file {secret.path} lies in the run folder, which is kept and shared"
        )
    for where, env in [("Plan.env", spec.env), *((f"stage {one.name}", one.env) for one in spec.stages)]:
        for name in secret.names:
            if name in env:
                raise ExecutorError(f"{name} is a secret and is also set in the open ({where})")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
