"""The parts of nemo_run and torchx that this package uses though they are nobody's promise, by name and shape.

`missing_parts()` compares them with what is installed, so that one message says what a new version changed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import metadata

#: Functions and methods that are called or overridden, with the parameters that are relied on.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "nemo_run.config:get_nemorun_home": (),
    "nemo_run.core.execution.base:Executor.assign": ("exp_id", "exp_dir", "task_id", "task_dir"),
    "nemo_run.core.execution.base:Executor.get_launcher": (),
    "nemo_run.core.execution.base:Executor.package_configs": ("cfgs",),
    "nemo_run.core.execution.slurm:SlurmExecutor.macro_values": (),
    "nemo_run.core.execution.slurm:SlurmExecutor.package": ("packager", "job_name"),
    "nemo_run.core.execution.slurm:SlurmExecutor.parse_deps": (),
    "nemo_run.core.execution.slurm:SlurmExecutor.supports_launcher_transform": (),
    "nemo_run.core.execution.slurm:get_packaging_job_key": ("experiment_id", "job_name"),
    "nemo_run.core.tunnel.client:SSHTunnel.connect": (),
    "nemo_run.core.tunnel.client:Tunnel._set_job_dir": ("experiment_id",),
    "nemo_run.run.experiment:Experiment.__exit__": ("exc_type", "exc_value", "tb"),
    "nemo_run.run.experiment:Experiment.run": ("detach",),
    "nemo_run.run.job:JobGroup.__post_init__": (),
    "nemo_run.run.torchx_backend.packaging:package": (
        "name",
        "fn_or_script",
        "executor",
        "serialize_to_file",
    ),
    "nemo_run.run.torchx_backend.runner:get_scheduler_factories": (),
    "nemo_run.run.torchx_backend.schedulers.local:PersistentLocalScheduler._submit_dryrun": ("app", "cfg"),
    "nemo_run.run.torchx_backend.schedulers.local:PersistentLocalScheduler.describe": ("app_id",),
    "nemo_run.run.torchx_backend.schedulers.local:PersistentLocalScheduler.schedule": ("dryrun_info",),
    "nemo_run.run.torchx_backend.schedulers.local:PersistentLocalScheduler._to_popen_request": ("app", "cfg"),
    "nemo_run.run.torchx_backend.schedulers.local:PersistentLocalScheduler._cancel_existing": ("app_id",),
    "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler._cancel_existing": ("app_id",),
    "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler._initialize_tunnel": ("tunnel",),
    "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler._submit_dryrun": ("app", "cfg"),
    "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler.describe": ("app_id",),
    "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler.log_iter": (
        "app_id",
        "role_name",
        "should_tail",
    ),
    "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler.schedule": ("dryrun_info",),
    "torchx.schedulers.api:filter_regex": ("regex", "data"),
}

#: Attributes that are read or written, with the type that they must have.
ATTRIBUTES: Mapping[str, type] = {
    "nemo_run.config:RUNDIR_NAME": str,
    "nemo_run.run.experiment:Experiment._DEPENDENCY_SUPPORTED_EXECUTORS": tuple,
    "nemo_run.run.experiment:Experiment._DETACH_SUPPORTED_EXECUTORS": tuple,
    "nemo_run.run.experiment:Experiment._PARALLEL_SUPPORTED_EXECUTORS": tuple,
    "nemo_run.run.experiment:Experiment._RUNNER_DEPENDENT_EXECUTORS": tuple,
    "nemo_run.run.experiment:_current_experiment": object,
    "nemo_run.run.job:JobGroup.SUPPORTED_EXECUTORS": list,
    "nemo_run.run.torchx_backend.schedulers.api:EXECUTOR_MAPPING": dict,
    "nemo_run.run.torchx_backend.schedulers.api:REVERSE_EXECUTOR_MAPPING": dict,
    "torchx.components.dist:_noquote": type,
}

#: Fields of dataclasses.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "nemo_run.core.execution.base:Executor": (
        *("packager", "launcher", "env_vars", "retries", "experiment_id", "job_dir", "experiment_dir"),
    ),
    "nemo_run.core.execution.base:ExecutorMacros": ("head_node_ip_var", "num_nodes_var", "node_rank_var"),
    "nemo_run.core.execution.launcher:Launcher": ("nsys_profile",),
    "nemo_run.core.execution.local:LocalExecutor": ("ntasks_per_node", "nodes"),
    "nemo_run.core.execution.slurm:SlurmExecutor": (
        *("account", "partition", "job_name_prefix", "time", "nodes", "ntasks_per_node", "cpus_per_task"),
        *(
            "cpus_per_gpu",
            "gpus_per_node",
            "gpus_per_task",
            "qos",
            "mem",
            "mem_per_gpu",
            "mem_per_cpu",
            "comment",
        ),
        *(
            "constraint",
            "exclude",
            "gres",
            "signal",
            "exclusive",
            "array",
            "container_image",
            "container_mounts",
        ),
        *("container_env", "additional_parameters", "srun_args", "heterogeneous", "memory_measure", "tunnel"),
        *(
            "dependencies",
            "dependency_type",
            "setup_lines",
            "het_group_indices",
            "segment",
            "network",
            "job_name",
        ),
    ),
    "nemo_run.core.packaging.base:Packager": ("symlink_from_remote_dir",),
    "nemo_run.core.tunnel.client:PackagingJob": ("symlink",),
    "nemo_run.core.tunnel.client:SSHTunnel": ("host", "user", "job_dir", "port", "identity", "pre_command"),
    "nemo_run.run.job:Job": ("executor", "handle", "launched", "state"),
    "torchx.schedulers.local_scheduler:PopenRequest": ("app_id", "log_dir", "role_params", "role_log_dirs"),
    "torchx.specs:AppDef": ("roles", "metadata"),
    "torchx.specs:Role": ("name", "entrypoint", "args", "env"),
}


def missing_parts() -> list[str]:
    """One line for each part that the installed nemo_run and torchx no longer have in this shape."""
    wrong: list[str] = []
    for name, parameters in FUNCTIONS.items():
        found = _find(name)
        if not callable(found):
            wrong.append(f"{name} is gone")
            continue
        known = inspect.signature(found).parameters
        wrong += [f"{name} has no parameter {one}" for one in parameters if one not in known]
    for name, kind in ATTRIBUTES.items():
        if not isinstance(_find(name), kind):
            wrong.append(f"{name} is gone, or no {kind.__name__}")
    for name, names in FIELDS.items():
        found = _find(name)
        known_fields = [field.name for field in fields(found)] if is_dataclass(found) else []
        wrong += [f"{name} has no field {one}" for one in names if one not in known_fields]
    return wrong


def message(wrong: list[str]) -> str:
    """What to tell a maintainer."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("nemo_run", "torchx"))
    return f"{versions} changed what cloudai-run's executors use:" + "".join(f"\n  {line}" for line in wrong)


def _find(name: str) -> object:
    module, _, path = name.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ImportError:
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
