"""An executor from its entry in cloudai-run.toml and the command line, each field checked by name and type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cloudai_run.config_file import ExecutorSpec
from cloudai_run.errors import UserError
from cloudai_run.overrides import Override, check_fields, fields_of
from cloudai_run.overrides.schema import Tree, TypeSpec
from cloudai_run.recipes.suggest import did_you_mean

if TYPE_CHECKING:
    from cloudai_run.executors.local import LocalExecutor
    from cloudai_run.executors.slurm import SlurmExecutor

# Fields that the launcher keeps to itself: no executor's class has them.
LAUNCHER_FIELDS: Mapping[str, TypeSpec] = {"gpu_model": ["union", "str", "none"]}
# Fields of NeMo-Run's classes that the launcher sets, or that a settings file cannot hold.
_HIDDEN = ("experiment_id", "job_dir", "experiment_dir", "job_name", "dependencies", "packager", "launcher")


def executor_class(kind: str) -> type[LocalExecutor] | type[SlurmExecutor]:
    """Returns the class of a kind of executor (this imports nemo_run)."""
    if kind == "slurm":
        from cloudai_run.executors.slurm import SlurmExecutor

        return SlurmExecutor
    from cloudai_run.executors.local import LocalExecutor

    return LocalExecutor


def known_fields(kind: str) -> dict[str, TypeSpec]:
    """Returns the fields that may be set for a kind of executor, with their types."""
    own = fields_of(executor_class(kind))
    renamed = {"env": own.pop("env_vars", "any"), **own, **LAUNCHER_FIELDS}
    return {name: spec for name, spec in renamed.items() if name not in _HIDDEN}


def with_overrides(spec: ExecutorSpec, overrides: Sequence[Override]) -> ExecutorSpec:
    """Returns the executor with `run.executor.X=...` applied; without any field set nothing is imported.

    Raises:
        UserError: a field that the executor does not have, or a value of another type.
    """
    if not overrides and not spec.fields:
        return spec
    fields = known_fields(spec.kind)
    for name in spec.fields:
        if name not in fields:
            near = did_you_mean(name, fields)
            hint = f"\n  did you mean {near[0]}?" if near else ""
            raise UserError(f"{spec.source}: executor {spec.name} ({spec.kind}) has no field {name}{hint}")
    before: dict[str, Tree] = {name: _tree(value) for name, value in spec.fields.items()}
    changed = check_fields(f"executor {spec.name}", fields, overrides, before)
    return dataclasses.replace(spec, fields={**spec.fields, **changed})


def build(spec: ExecutorSpec) -> LocalExecutor | SlurmExecutor:
    """Returns the executor of a spec.

    Raises:
        UserError: a nested table has a key that its class does not have.
        ExecutorError: the fields contradict each other.
    """
    fields = {name: value for name, value in spec.fields.items() if name not in LAUNCHER_FIELDS}
    if "env" in fields:
        fields["env_vars"] = fields.pop("env")
    for name, make in _nested().items():
        table = fields.get(name)
        if isinstance(table, Mapping):
            fields[name] = _from_table(spec, name, make, table)
    return _made(executor_class(spec.kind), fields)


def _made(
    make: Callable[..., LocalExecutor | SlurmExecutor], fields: Mapping[str, object]
) -> LocalExecutor | SlurmExecutor:
    return make(**fields)


def _nested() -> Mapping[str, type]:
    from nemo_run import SSHTunnel

    from cloudai_run.executors.options import NsysOptions, Preflight

    return {"nsys": NsysOptions, "preflight": Preflight, "tunnel": SSHTunnel}


def _from_table(spec: ExecutorSpec, name: str, make: type, table: Mapping[str, object]) -> object:
    known = [field.name for field in dataclasses.fields(make) if field.init]
    for key in table:
        if key not in known:
            near = did_you_mean(key, known)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise UserError(f"executor {spec.name} has no field {name}.{key}\n  {hint}")
    try:
        return make(**table)
    except TypeError as error:
        raise UserError(f"executor {spec.name}: {name} is not complete: {error}") from error


def _tree(value: object) -> Tree:
    if isinstance(value, Mapping):
        return {str(key): _tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
