"""What a job does, as data: frozen dataclasses without any shell text.

An executor makes a `Plan`; `render_sbatch` and `render_local` turn it into a script. Every string here is the value
itself, unquoted: what stands in `argv` or `env` reaches the program byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from cloudai_run.executors import checks
from cloudai_run.executors.directives import Directives

__all__ = [
    "Allocation",
    "Artifact",
    "Container",
    "Directives",
    "Gate",
    "Layout",
    "LocalLauncher",
    "Mpi",
    "NodeVar",
    "Nsys",
    "NsysCapture",
    "Plan",
    "Secrets",
    "Stage",
    "Word",
]


@dataclass(frozen=True)
class NodeVar:
    """A variable that expands on the rank, such as `NodeVar("SLURM_LOCALID")`.

    A `$` inside a string is never expanded; this marker is the only way to ask for it.

    Raises:
        ExecutorError: if the name is not one of an environment variable.
    """

    name: str

    def __post_init__(self) -> None:
        checks.env_name(self.name, "NodeVar")


Word = str | NodeVar | tuple[str | NodeVar, ...]
"""One argument or value: text, a variable of the rank, or both joined: `("--host_idx=", NodeVar("SLURM_PROCID"))`."""


class Layout(str, Enum):
    """Where a stage's processes run."""

    ALL_RANKS = "all_ranks"
    ONCE_PER_NODE = "once_per_node"
    ONCE = "once"


class Mpi(str, Enum):
    """What `srun --mpi=` gets."""

    NONE = "none"
    PMIX = "pmix"
    PMI2 = "pmi2"


class LocalLauncher(str, Enum):
    """How a local run starts the processes of an `ALL_RANKS` stage.

    SPAWN: as many processes as ranks, each with Slurm's variables (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS ...).
    TORCHRUN: `torchrun --standalone --nproc-per-node=N --no-python` starts them.
    SELF: one process without SLURM_NTASKS; the program starts its own ranks.
    """

    SPAWN = "spawn"
    TORCHRUN = "torchrun"
    SELF = "self"


class NsysCapture(str, Enum):
    """API: from cudaProfilerStart to cudaProfilerStop. WHOLE: the program from beginning to end."""

    API = "api"
    WHOLE = "whole"


@dataclass(frozen=True, kw_only=True)
class Nsys:
    """Wraps the chosen ranks of a stage in `nsys profile`; the report lies at `nsys.report_path(...)`.

    Attributes:
        ranks: ranks to wrap, counted from 0.
        options: merged by name over the defaults; the user's wins, None drops a default. Names as nsys writes them,
            long or short, without dashes: `{"trace": "cuda,nvtx", "s": "cpu"}`.
        capture: API captures nothing unless the program calls cudaProfilerStart.
        binary: name or path of nsys where the rank runs.
    """

    ranks: tuple[int, ...] = (0,)
    options: Mapping[str, str | None] = field(default_factory=dict)
    capture: NsysCapture = NsysCapture.API
    binary: str = "nsys"

    def __post_init__(self) -> None:
        checks.nsys(self)


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
        checks.gate(self)


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that must exist and not be empty after a stage, or the stage has failed.

    Attributes:
        path: absolute, or relative to the run folder.
        hint: what to look at if it is missing; one line, shown after the path.
    """

    path: str
    hint: str = ""

    def __post_init__(self) -> None:
        checks.artifact(self)


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container image and how stages run in it (pyxis).

    Attributes:
        image: as pyxis takes it: `nvcr.io#nvidia/nemo:25.04`, or the path of a squashfs file.
        mounts: `SOURCE:TARGET[:FLAGS]`; the run folder is mounted at its own path besides.
        workdir: directory inside, absolute; None leaves the image's.
        writable: None leaves the cluster's setting.
        mount_home: False keeps packages in the user's home (~/.local) out of the run; None leaves the cluster's.
        remap_root: None leaves the cluster's setting.
        save: path of a squashfs file that keeps the state of the container after the last stage in it.
    """

    image: str
    mounts: tuple[str, ...] = ()
    workdir: str | None = None
    writable: bool | None = None
    mount_home: bool | None = False
    remap_root: bool | None = None
    save: str | None = None

    def __post_init__(self) -> None:
        checks.container(self)


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Environment variables that are named here and whose values stand only in a file of mode 600.

    Attributes:
        names: variables that every stage gets.
        path: absolute, outside the run folder. `quoting.secret_file(values)` makes its text.
        remove: the file was made for this job: the script removes it as soon as no attempt needs it any more.
    """

    names: tuple[str, ...]
    path: str
    remove: bool = True

    def __post_init__(self) -> None:
        checks.secrets(self)


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
        workdir: absolute directory in which the program starts; None leaves the container's, or where the job was submitted.
        srun: more options for this stage's srun, as in `Directives.srun`.
        local_launcher: how a local run starts several ranks.
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
    srun: Mapping[str, str | int | None] = field(default_factory=dict)
    local_launcher: LocalLauncher = LocalLauncher.SPAWN

    def __post_init__(self) -> None:
        checks.stage(self)

    @property
    def command(self) -> tuple[Word, ...]:
        """The program and its arguments, whether given as `argv` or as `script`."""
        return self.argv or (self.interpreter, "-c", self.script)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A whole job: stages that run one after the other in one allocation.

    Attributes:
        job_name: for Slurm and in the names of nsys reports. `bash` and `interactive` are refused: Lightning takes a
            job of that name for an interactive shell, ignores Slurm's variables and hangs.
        run_dir: absolute path of the run folder, the same on every node.
        stages: in order; the job stops at the first that fails, with its exit code.
        directives: what is asked of Slurm; a local run takes only the number of tasks from it.
        containers: by name; a stage refers to the name.
        env: environment of every stage.
        secrets: variables that are named and not copied.
        setup: the user's own shell lines, run before the stages in the job's shell; the first that fails fails the job.
        retries: how often Slurm may start the job again after a node failure.
    """

    job_name: str
    run_dir: str
    stages: tuple[Stage, ...]
    directives: Directives = field(default_factory=Directives)
    containers: Mapping[str, Container] = field(default_factory=dict)
    env: Mapping[str, Word] = field(default_factory=dict)
    secrets: Secrets | None = None
    setup: str = ""
    retries: int = 0

    def __post_init__(self) -> None:
        checks.plan(self)

    def env_of(self, stage: Stage) -> dict[str, Word]:
        """Returns the environment that is set for `stage`, without the secrets."""
        return {**self.env, **stage.env}


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """What a recipe may know of the place where it will run when it makes its stages.

    Attributes:
        nodes: number of nodes.
        ntasks_per_node: ranks a node.
        gpus_per_node: None if the executor was not told.
        run_dir: absolute path of the run folder, the same inside a container.
        job_name: the plan's.
        local: no Slurm: one node, no containers.
    """

    nodes: int
    ntasks_per_node: int
    gpus_per_node: int | None
    run_dir: str
    job_name: str
    local: bool = False
