"""One step of a job, as data without any shell text: a program, and where and how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.nsys import Nsys
from cloudai_run.executors.slurm_options import Option, check_options
from cloudai_run.executors.words import (
    Word,
    check_count,
    check_env,
    check_file_name,
    check_line,
    check_path,
    check_word,
)


class Layout(StrEnum):
    """Where a stage's processes run."""

    ALL_RANKS = "all_ranks"
    ONCE_PER_NODE = "once_per_node"
    ONCE = "once"


class Mpi(StrEnum):
    """What `srun --mpi=` gets."""

    NONE = "none"
    PMIX = "pmix"
    PMI2 = "pmi2"


class LocalLauncher(StrEnum):
    """How a local run starts an `ALL_RANKS` stage.

    SPAWN: as many processes as ranks, each with Slurm's variables (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS
        and so on).
    TORCHRUN: `torchrun --standalone --nproc-per-node=N --no-python` starts them.
    SELF: one process without SLURM_NTASKS; the program starts its own ranks.
    """

    SPAWN = "spawn"
    TORCHRUN = "torchrun"
    SELF = "self"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Text that a stage's output must hold, or the stage has failed although it exited with 0.

    Attributes:
        text: looked for as it stands, within one line, in stdout and stderr of the stage.
        every_rank: each rank must have printed it; the ranks that did not are named.
    """

    text: str
    every_rank: bool = False

    def __post_init__(self) -> None:
        check_line(self.text, "Gate.text")


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that must exist and not be empty after a stage, or the stage has failed.

    Attributes:
        path: absolute, or relative to the run folder.
        hint: what to look at if it is missing or empty; one line, shown after the path.
    """

    path: str
    hint: str = ""

    def __post_init__(self) -> None:
        check_line(self.path, "Artifact.path")
        if self.hint:
            check_line(self.hint, "Artifact.hint")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of a job: a program, and where and how it runs.

    Attributes:
        name: letters, digits, `.`, `_` and `-`; names its logs and its records.
        argv: the program and its arguments. Empty if `script` is given.
        script: text of a script that each process runs as `INTERPRETER -c TEXT`. Empty if `argv` is given.
        interpreter: what runs `script`.
        env: added to the plan's; a stage's own wins.
        layout: ALL_RANKS: every rank; ONCE_PER_NODE: one process a node; ONCE: one process on the first node.
        mpi: none unless the program calls MPI_Init.
        container: a key of `Plan.containers`, or None.
        gate: text that the output must hold.
        timeout_s: after this many seconds the stage is killed and has failed with exit code 124.
        expects: files that must be there after it.
        nsys: ranks to profile.
        nodes: number of nodes, the first of the allocation; None for all.
        ntasks_per_node: ranks a node for ALL_RANKS; None for the allocation's.
        workdir: absolute directory in which the program starts; None leaves the container's, or without a
            container the directory that the job was submitted from.
        srun: more options for this stage's srun; they win over `Directives.srun`.
        local_launcher: how a local run starts the ranks of an ALL_RANKS stage.
    """

    name: str
    argv: tuple[Word, ...] = ()
    script: str = ""
    interpreter: str = "bash"
    env: Mapping[str, Word] = field(default_factory=dict)
    layout: Layout = Layout.ALL_RANKS
    mpi: Mpi = Mpi.NONE
    container: str | None = None
    gate: Gate | None = None
    timeout_s: int | None = None
    expects: tuple[Artifact, ...] = ()
    nsys: Nsys | None = None
    nodes: int | None = None
    ntasks_per_node: int | None = None
    workdir: str | None = None
    srun: Mapping[str, Option] = field(default_factory=dict)
    local_launcher: LocalLauncher = LocalLauncher.SPAWN

    def __post_init__(self) -> None:
        check_file_name(self.name, "Stage.name")
        where = f"stage {self.name}"
        if isinstance(self.argv, str):
            raise ExecutorError(f"{where}: argv is the text {self.argv!r}: give one string for each argument")
        if bool(self.argv) == bool(self.script):
            raise ExecutorError(f"{where} must have either argv or script")
        for at, word in enumerate(self.command):
            check_word(word, f"{where}: argument {at}")
        if not self.command[0] or str(self.command[0]).startswith("-"):
            raise ExecutorError(f"{where}: {self.command[0]!r} is no name of a program")
        check_env(self.env, f"{where}: env")
        for name in ("timeout_s", "nodes", "ntasks_per_node"):
            check_count(getattr(self, name), 1, f"{where}: {name}")
        if self.workdir is not None:
            check_path(self.workdir, f"{where}: workdir")
        check_options(self.srun, "srun", f"{where}: srun")

    @property
    def command(self) -> tuple[Word, ...]:
        """The program and its arguments, whether given as `argv` or as `script`."""
        return self.argv or (self.interpreter, "-c", self.script)
