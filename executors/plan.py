"""What a job does, as data: frozen dataclasses without any shell text.

An executor makes a `Plan`; `render_sbatch` and `render_local` turn it into a script. Every string here is the
value itself, unquoted: what stands in `argv` or `env` reaches the program byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cloudai_run.executors.container import Container
from cloudai_run.executors.directives import Directives
from cloudai_run.executors.environment import exportable
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.nsys import Nsys, NsysCapture
from cloudai_run.executors.slurm_options import Option
from cloudai_run.executors.stage import Artifact, Gate, Layout, LocalLauncher, Mpi, Stage
from cloudai_run.executors.words import (
    NodeVar,
    Word,
    check_count,
    check_env,
    check_env_name,
    check_file_name,
    check_path,
    check_text,
)

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
    "Option",
    "Plan",
    "Secrets",
    "Stage",
    "Word",
]

# Lightning's SLURMEnvironment takes a job of one of these names for an interactive shell.
_INTERACTIVE_JOB_NAMES = ("bash", "interactive")
SET_UP = "set-up"
"""Name of the step that reads the secrets and runs the user's set-up lines, in the records."""


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Environment variables that are named here and whose values stand only in a file of mode 600.

    Attributes:
        names: variables that every stage gets.
        path: absolute, outside the run folder.
        remove: True: the file was made for this job with `quoting.secret_file(values)`, and the script
            removes it once no further attempt can need it. False: the user's own file, NAME=VALUE lines.
    """

    names: tuple[str, ...]
    path: str
    remove: bool = True

    def __post_init__(self) -> None:
        for name in self.names:
            check_env_name(name, "Secrets.names")
            if not exportable(name):
                raise ExecutorError(
                    f"{name} cannot be a secret: the shell, the loader or Slurm sets it itself"
                )
        if not self.names or len(set(self.names)) != len(self.names):
            raise ExecutorError(f"Secrets.names is {self.names!r}: name at least one variable, each once")
        check_path(self.path, "Secrets.path")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A whole job: stages that run one after the other in one allocation.

    Attributes:
        job_name: for Slurm and in the names of nsys reports. `bash` and `interactive` are refused: Lightning
            takes a job of that name for an interactive shell, ignores Slurm's variables and hangs.
        run_dir: absolute path of the run folder, the same on every node.
        stages: in order; the job stops at the first that fails, with its exit code.
        directives: what is asked of Slurm; a local run takes only the number of tasks from it.
        containers: by name; a stage refers to the name.
        env: environment of every stage.
        secrets: variables that are named and not copied.
        setup: the user's own shell lines, run in the job's shell before the stages; the first that fails ends
            the job. The only shell text of a plan.
        retries: how often Slurm may start the job again after a node failure.
        remove_containers: a last srun removes the containers that several stages shared from each node's
            disk. False where pyxis does so itself (container_scope=job).
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
    remove_containers: bool = True

    def __post_init__(self) -> None:
        check_file_name(self.job_name, "job_name")
        if self.job_name in _INTERACTIVE_JOB_NAMES:
            raise ExecutorError(
                f"the job cannot be called {self.job_name!r}: Lightning takes a job of that name for an"
                " interactive shell, ignores Slurm and hangs"
            )
        check_path(self.run_dir, "run_dir")
        check_env(self.env, "Plan.env")
        check_text(self.setup, "Plan.setup")
        if "\r" in self.setup:
            raise ExecutorError("Plan.setup has a carriage return, and sbatch refuses a script that has one")
        check_count(self.retries, 0, "retries")
        for name in self.containers:
            check_file_name(name, "the name of a container")
        self._check_stages()
        if self.secrets is not None:
            self._check_secrets(self.secrets)

    def _check_stages(self) -> None:
        names = [stage.name for stage in self.stages]
        if not names:
            raise ExecutorError("a plan needs at least one stage")
        for name in names:
            if names.count(name) > 1:
                raise ExecutorError(f"two stages are called {name}: their logs and records would mix")
            if name in (SET_UP, *(load_stage_name(container) for container in self.containers)):
                raise ExecutorError(f"a stage cannot be called {name}: the script has a step of that name")
        for stage in self.stages:
            self._check_stage(stage)

    def _check_stage(self, stage: Stage) -> None:
        if stage.container is not None and stage.container not in self.containers:
            known = ", ".join(sorted(self.containers)) or "none"
            raise ExecutorError(
                f"stage {stage.name} names the container {stage.container!r}; the plan's containers: {known}"
            )
        nodes, ntasks_per_node = self.directives.num_nodes, self.directives.ntasks_per_node
        if (stage.nodes or 1) > nodes:
            raise ExecutorError(f"stage {stage.name} wants {stage.nodes} nodes; the job has {nodes}")
        if (stage.ntasks_per_node or 1) > ntasks_per_node:
            raise ExecutorError(
                f"stage {stage.name} wants {stage.ntasks_per_node} tasks a node; "
                f"the job has {ntasks_per_node}"
            )

    def _check_secrets(self, secrets: Secrets) -> None:
        if f"{secrets.path}/".startswith(f"{self.run_dir.rstrip('/')}/"):
            raise ExecutorError(
                f"the secrets' file {secrets.path} lies in the run folder, which others may read"
            )
        open_envs = {"Plan.env": self.env, **{f"stage {stage.name}": stage.env for stage in self.stages}}
        for where, env in open_envs.items():
            for name in secrets.names:
                if name in env:
                    raise ExecutorError(f"{name} is a secret and is also set in the open ({where})")


def load_stage_name(container: str) -> str:
    """Returns the name of the step that loads a container, in the records and logs."""
    return f"load-{container}"


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
