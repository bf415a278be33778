"""Commands on the machine that has Slurm's, this one or one over NeMo-Run's SSH tunnel, as words of argv."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nemo_run.core.tunnel.client import SSHTunnel

#: Slurm's commands answer in milliseconds; one that hangs on a dead daemon must not hang the client with it.
COMMAND_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Result:
    """What a command said; `code` is -1 if it could not be run or gave no answer in time."""

    code: int
    stdout: str
    stderr: str


class Shell(Protocol):
    """A place where commands run."""

    def run(self, words: Sequence[str], stdin: str = "") -> Result:
        """Runs a command to its end. Never raises for a command that fails or is not there."""
        ...


class LocalShell:
    """Commands run on this machine."""

    def run(self, words: Sequence[str], stdin: str = "") -> Result:
        try:
            done = subprocess.run(
                list(words),
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            return Result(-1, "", f"{words[0]}: no such command here")
        except subprocess.TimeoutExpired:
            return Result(-1, "", f"{words[0]}: no answer in {COMMAND_TIMEOUT_S:g} s")
        return Result(done.returncode, done.stdout, done.stderr)


class TunnelShell:
    """Commands run over an SSH tunnel of NeMo-Run's."""

    def __init__(self, tunnel: SSHTunnel) -> None:
        self._tunnel = tunnel

    def run(self, words: Sequence[str], stdin: str = "") -> Result:
        from paramiko.ssh_exception import SSHException

        try:
            code, stdout, stderr = self._run(words, stdin)
        except TimeoutError:
            return Result(-1, "", f"{words[0]}: no answer in {COMMAND_TIMEOUT_S:g} s")
        except (OSError, EOFError, SSHException) as error:
            return Result(-1, "", f"{self._tunnel.key}: {error}")
        return Result(code, stdout.decode("utf-8", "replace"), stderr)

    def output(self, words: Sequence[str]) -> bytes:
        """What a command printed, byte for byte, whether it failed or not.

        Raises:
            OSError: the connection failed.
        """
        return self._run(words, "")[1]

    def _run(self, words: Sequence[str], stdin: str) -> tuple[int, bytes, str]:
        command = shlex.join(words)
        if self._tunnel.pre_command:
            command = f"{self._tunnel.pre_command} && {command}"
        self._tunnel.connect()
        # The client beneath NeMo-Run's session: the session types standard input a character at a time.
        client = self._tunnel.session.client if self._tunnel.session else None
        assert client is not None
        to, out, err = client.exec_command(command, timeout=COMMAND_TIMEOUT_S)
        to.write(stdin)
        to.channel.shutdown_write()
        stdout, stderr = out.read(), err.read().decode("utf-8", "replace")
        return out.channel.recv_exit_status(), stdout, stderr
