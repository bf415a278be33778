"""The executor that turns a task into one sbatch script: usable wherever NeMo-Run's SlurmExecutor is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nemo_run.core.execution.launcher import Launcher, Torchrun
from nemo_run.core.execution.slurm import SlurmExecutor as NemoRunSlurmExecutor
from nemo_run.core.packaging.base import Packager
from nemo_run.core.tunnel.client import LocalTunnel

from cloudai_run.executors import registry
from cloudai_run.executors.directives import Directives
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.options import NsysOptions, Preflight, member
from cloudai_run.executors.placement import HOST, MAIN
from cloudai_run.executors.plan import Container, Mpi
from cloudai_run.executors.slurm_options import Option

#: Named for every job: a launch takes them along if they are set, and never as a value.
WELL_KNOWN_SECRETS = ("HF_TOKEN", "WANDB_API_KEY")

#: Fields of NeMo-Run's executor that this one does not have, and what to use instead.
_REFUSED = {
    "array": "one job runs one task: add a task to the Experiment for each variant",
    "heterogeneous": "add a task for each kind of node, or use run.SlurmExecutor",
    "het_group_indices": "add a task for each kind of node, or use run.SlurmExecutor",
    "memory_measure": "make it a preflight, or a stage of the recipe",
}


@dataclass(kw_only=True)
class SlurmExecutor(NemoRunSlurmExecutor):
    """Runs a task as one Slurm job: every stage in one allocation, each in an srun of its own.

    A recipe (a Partial whose target names its stages) becomes its stages. Any other Partial or Script becomes
    one stage that runs what NeMo-Run would run. NeMo-Run's fields mean what they mean there, but for these:
    `env_vars` and arguments arrive byte for byte and names keep their case; `additional_parameters` are options
    of sbatch by name; `srun_args` are words like `--name=value`; `retries` counts starts after a lost node, as a
    failed stage is final.

    Attributes:
        account: "" asks for none.
        packager: ships nothing unless another is given.
        nodelist: exactly these nodes, as Slurm writes them: `node[1-4]`.
        reservation: of nodes.
        switches: COUNT[@MAX-WAIT].
        env_vars: text, a `plan.NodeVar` that expands on the rank, or a tuple of both.
        container_workdir: directory inside; None leaves the image's for recipes.
        container_writable: None leaves the cluster's setting.
        container_mount_home: None leaves the cluster's setting.
        container_remap_root: None leaves the cluster's setting.
        container_save: path of a squashfs file that keeps the container after the last stage in it.
        containers: further images by a name that a stage can give as its container.
        mpi: srun's `--mpi` for Partials and Scripts that are no recipe: `none`, `pmix` or `pmi2`.
        secrets: variables of this shell that every rank gets and that no file but one of mode 600 holds.
        secret_file: such a file of the user's own on the cluster, of NAME=value lines; it is left alone.
            None makes one for the job, which removes it.
        nsys: ranks to profile.
        preflight: a stage before all others that must pass.
        sbatch_extras: options of sbatch that have no field: `{"mail-type": "END", "hold": None}`.
        srun_extras: options for every srun.
    """

    account: str = ""
    packager: Packager = field(default_factory=Packager)
    nodelist: str | None = None
    reservation: str | None = None
    switches: str | None = None
    container_workdir: str | None = None
    container_writable: bool | None = None
    container_mount_home: bool | None = False
    container_remap_root: bool | None = None
    container_save: str | None = None
    containers: dict[str, str] = field(default_factory=dict)
    mpi: str = "none"
    secrets: list[str] = field(default_factory=lambda: list(WELL_KNOWN_SECRETS))
    secret_file: str | None = None
    nsys: NsysOptions | None = None
    preflight: Preflight | None = None
    sbatch_extras: dict[str, Option] = field(default_factory=dict)
    srun_extras: dict[str, Option] = field(default_factory=dict)
    poll_estimated_start_time: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        registry.register_slurm(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    def check(self) -> None:
        """Refuses fields that contradict each other or that this executor does not have.

        Raises:
            ExecutorError: says which field and what to use instead.
        """
        for name, instead in _REFUSED.items():
            if getattr(self, name):
                raise ExecutorError(f"SlurmExecutor does not take {name}\n  instead: {instead}")
        unset = [name for name in self.container_env or () if name not in self.env_vars]
        if unset:
            raise ExecutorError(
                f"container_env names {', '.join(unset)}, which env_vars does not set"
                "\n  instead: set it in env_vars; each variable there wins over the image's"
            )
        self.refuse_secrets_in("env_vars", self.env_vars)
        for name in (MAIN, HOST):
            if name in self.containers:
                raise ExecutorError(
                    f"containers cannot have the name {name!r}, which has a meaning of its own"
                )
        member(Mpi, self.mpi, "mpi")
        if self.nsys:
            self.nsys.spec()
        if self.preflight:
            self.preflight.stage()
        self.directives()

    def refuse_secrets_in(self, where: str, env: Iterable[str]) -> None:
        """Refuses an environment that holds the value of a secret.

        Raises:
            ExecutorError: names the secret and says how it is passed on.
        """
        for name in self.secrets:
            if name in env:
                raise ExecutorError(
                    f"{where} holds the value of {name}, which would end up in the script and in YAML files"
                    f"\n  instead: set {name} in the environment that launches: it is passed on by name"
                )

    def directives(self) -> Directives:
        """What is asked of Slurm."""
        optional: dict[str, Option] = {
            "cpus-per-gpu": self.cpus_per_gpu,
            "gpus-per-task": self.gpus_per_task,
            "mem-per-cpu": self.mem_per_cpu,
            "mem-per-gpu": self.mem_per_gpu,
            "network": self.network,
            "signal": self.signal,
            # With its dashes, as the plan's own field of this name has no value.
            "--exclusive": self.exclusive if isinstance(self.exclusive, str) else None,
        }
        extras: dict[str, Option] = {name: value for name, value in optional.items() if value is not None}
        return Directives(
            # One node is the default of the field, so that a list alone gives the count.
            nodes=None if self.nodelist and self.nodes == 1 else self.nodes,
            ntasks_per_node=self.ntasks_per_node,
            nodelist=self.nodelist,
            exclude=self.exclude,
            reservation=self.reservation,
            constraint=self.constraint,
            segment=self.segment,
            switches=self.switches,
            time=self.time or None,
            account=self.account or None,
            partition=self.partition,
            qos=self.qos,
            gres=self.gres,
            gpus_per_node=self.gpus_per_node,
            cpus_per_task=self.cpus_per_task,
            mem=self.mem,
            exclusive=self.exclusive is True,
            comment=self.comment,
            sbatch={**extras, **(self.additional_parameters or {}), **self.sbatch_extras},
            srun={**_options(self.srun_args or ()), **self.srun_extras},
        )

    def container(self) -> Container | None:
        """The executor's own image, None if it has none."""
        return self.container_template(self.container_image) if self.container_image else None

    def container_template(self, image: str) -> Container:
        """An image with the executor's mounts and the like."""
        run_dir = self.cluster_dir()
        return Container(
            image=image,
            # NeMo-Run's name for the run folder, for paths that were written for run.SlurmExecutor.
            mounts=(
                *(mount.replace("/$nemo_run", run_dir, 1) for mount in self.container_mounts),
                f"{run_dir}:/nemo_run",
            ),
            workdir=self.container_workdir,
            writable=self.container_writable,
            mount_home=self.container_mount_home,
            remap_root=self.container_remap_root,
            save=self.container_save,
        )

    def cluster_dir(self) -> str:
        """The run folder as the cluster sees it."""
        if isinstance(self.tunnel, LocalTunnel):
            return os.path.abspath(self.job_dir or ".")
        return os.path.join(self.tunnel.job_dir, Path(self.job_dir).name)

    def secrets_dir(self) -> str:
        """Folder of the secrets' files: outside each run folder, where the job's node is known to read."""
        if isinstance(self.tunnel, LocalTunnel):
            from nemo_run.config import get_nemorun_home

            return os.path.join(os.path.abspath(get_nemorun_home()), ".secrets")
        # BASE/TITLE/EXPERIMENT
        return str(Path(self.tunnel.job_dir).parent.parent / ".secrets")

    def assign(self, exp_id: str, exp_dir: str, task_id: str, task_dir: str) -> None:
        if isinstance(self.tunnel, LocalTunnel):
            # NeMo-Run would look for the script under another LocalTunnel(job_dir=...), where nobody puts it.
            self.tunnel.job_dir = ""
        elif self.experiment_id and self.tunnel.job_dir.endswith(f"/{self.experiment_id}"):
            # A task that is launched again: NeMo-Run would nest its new folder in the old one.
            self.tunnel.job_dir = str(Path(self.tunnel.job_dir).parent.parent)
        super().assign(exp_id, exp_dir, task_id, task_dir)
        if isinstance(self.tunnel, LocalTunnel):
            self.tunnel.job_dir = os.path.abspath(exp_dir)

    def nnodes(self) -> int:
        return self.directives().num_nodes

    def supports_launcher_transform(self) -> bool:
        return False

    def get_launcher(self) -> Launcher:
        launcher = super().get_launcher()
        if type(launcher) not in (Launcher, Torchrun):
            raise ExecutorError(
                f"SlurmExecutor does not take the launcher {type(launcher).__name__}"
                "\n  instead: launcher=None or 'torchrun', or run.SlurmExecutor"
            )
        if launcher.nsys_profile:
            raise ExecutorError(
                "SlurmExecutor does not take launcher.nsys_profile, which wraps every rank"
                "\n  instead: nsys=NsysOptions(ranks=[0])"
            )
        return launcher

    def package_configs(self, *cfgs: tuple[str, str]) -> list[str]:
        # The one place where NeMo-Run shows an executor the whole task.
        self._configs = [*self.task_configs(), *cfgs]
        return super().package_configs(*cfgs)

    def task_configs(self) -> list[tuple[str, str]]:
        """What NeMo-Run packaged for the task: names and serialized configurations."""
        return list(getattr(self, "_configs", []))


def _options(words: list[str] | tuple[()]) -> dict[str, Option]:
    """`--name=value` and `--name` words as options by name."""
    options: dict[str, Option] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name.startswith("--") or len(name) < 3 or not name[2:].replace("-", "").isalnum():
            raise ExecutorError(
                f"{word!r} in srun_args is no option\n  right: --name or --name=value, one a word"
            )
        options[name[2:]] = value if equals else None
    return options


registry.register_slurm(SlurmExecutor)
