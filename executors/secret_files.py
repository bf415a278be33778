"""Files of mode 600 that carry secrets from the environment of the launch to the job, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.quoting import secret_file
from cloudai_run.executors.shell import LocalShell, Shell


def secret_values(names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets that are set, by name."""
    return {name: environment[name] for name in names if environment.get(name)}


def write_secret_file(shell: Shell, path: str, values: Mapping[str, str]) -> None:
    """Writes the values where only their owner reads them; over SSH they travel through standard input.

    Raises:
        ExecutorError: the file cannot be written.
    """
    text = secret_file(values)
    if isinstance(shell, LocalShell):
        folder = Path(path).parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        Path(path).unlink(missing_ok=True)
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(text)
        return
    script = 'umask 077 && mkdir -p -- "${1%/*}" && rm -f -- "$1" && cat >"$1"'
    result = shell.run(["sh", "-c", script, "sh", path], stdin=text)
    if result.code != 0:
        raise ExecutorError(f"the secrets' file {path} cannot be written: {result.stderr.strip()[:300]}")


def remove_secret_file(shell: Shell, path: str) -> None:
    """Removes the file of a job that needs it no more; the job's script did so already, if it ran."""
    if isinstance(shell, LocalShell):
        Path(path).unlink(missing_ok=True)
    else:
        shell.run(["rm", "-f", "--", path])
