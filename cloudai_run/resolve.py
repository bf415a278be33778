"""From a command line to what would run: recipe, overrides, executor, layout, rules. Pure but for reading files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cloudai_run.config_file import ExecutorSpec, Settings
from cloudai_run.errors import UserError
from cloudai_run.executor_fields import with_overrides
from cloudai_run.frameworks import Config, Framework, Layout, RuleViolation, framework_of, with_env
from cloudai_run.overrides import Naming, apply, check_tree, parse, split_run
from cloudai_run.plugins import with_plugins

# HF_TOKEN, WANDB_API_KEY, AWS_SECRET_ACCESS_KEY, MLFLOW_TRACKING_PASSWORD ...
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|API_?KEY|ACCESS_KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE
)
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SMOKE_WORDS = "CPU smoke run: not a benchmark"


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Attributes:
        words: the overrides as typed, `run.` words among them.
        factory: the recipe's name, or None if `config` is given.
        config: a whole configuration that was read from a file, or None.
        smoke: `--smoke` was given.
        force: rules warn and do not refuse.
        name: the run's name; None takes the recipe's.
        dryrun: nothing will be launched, so that this machine need not have what the run needs.
    """

    words: tuple[str, ...]
    factory: str | None = None
    config: Config | None = None
    smoke: bool = False
    force: bool = False
    name: str | None = None
    dryrun: bool = False


@dataclass(frozen=True)
class Resolved:
    """What would run, checked.

    Attributes:
        config: the final configuration; for a smoke run the shrunk one.
        layout: nodes, and ranks on each (in a smoke run: processes).
        executor: with the fields of the command line merged in.
        resets: what of the user's a smoke run could not keep.
        notes: lines for the user, such as rules that `--force` let pass.
    """

    name: str
    framework: Framework
    config: Config
    layout: Layout
    executor: ExecutorSpec
    smoke: bool
    overrides: tuple[str, ...]
    resets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def resolve(request: Request, settings: Settings, local_gpus: int) -> Resolved:
    """Returns what the request means here.

    Args:
        request: the command line.
        settings: from cloudai-run.toml.
        local_gpus: GPUs of this machine; they choose between local GPUs and a CPU smoke run.

    Raises:
        UserError: a name, a type, a rule or an executor that does not fit.
    """
    if request.name is not None and not _RUN_NAME.fullmatch(request.name):
        raise UserError(
            f"--name {request.name!r} cannot name a folder\n"
            "  letters, digits, '.', '_' and '-', with a letter or digit first"
        )
    words = split_run(request.words)
    executor = settings.executor(words.executor or settings.default_executor or "local")
    framework, base = _base(request, executor)
    overrides = parse(words.recipe)
    config = apply(overrides, framework.start(base, overrides), framework.schema, framework.recipe)
    refuse_secrets(words.env)
    config = with_env(config, words.env)
    chosen = words.executor is not None or settings.default_executor is not None
    smoke, notes = _smoke_or_not(request, chosen, executor, local_gpus)
    executor = with_overrides(executor, words.executor_overrides)
    config, executor = with_plugins(framework, config, executor, words)
    made = Resolved(
        request.name or framework.recipe, framework, config, Layout(1, 1), executor, smoke, request.words
    )
    notes += tuple(framework.notes(config))
    if smoke:
        notes += _check_rules(framework, config, framework.full_layout(config), request.force)
        layout = Layout(_given(executor, "nodes") or 1, _given(executor, "ntasks_per_node") or 1)
        config, resets = framework.smoke(config, layout)
        notes += (f"reset for the CPU smoke run: {'; '.join(resets)}",) if resets else ()
        made = replace(made, config=config, layout=layout, resets=tuple(resets))
    else:
        layout = _layout(framework, base, config, executor, local_gpus)
        config = framework.with_layout(config, layout)
        notes += _check_rules(framework, config, layout, request.force)
        notes += _version_note(framework, executor)
        made = replace(made, config=config, layout=layout)
    fields = {**executor.fields, **_layout_fields(executor, layout)}
    return replace(made, executor=replace(executor, fields=fields), notes=notes)


def refuse_secrets(env: Mapping[str, str]) -> None:
    """Refuses variables whose values would end up in a script, a record and a YAML file.

    Raises:
        UserError: names the variable and how it reaches the ranks instead.
    """
    for name in env:
        if _SECRET_NAME.search(name):
            raise UserError(
                f"run.env.{name} would be written into the script and the run's record\n"
                f"  a secret is named, not copied: export {name} in this shell; for Slurm also"
                f" run.executor.secrets+=['{name}']"
            )


def _base(request: Request, executor: ExecutorSpec) -> tuple[Framework, Config]:
    image = executor.fields.get("container_image")
    image = str(image) if image else None
    if request.config is not None:
        framework = framework_of(_recipe_name(request.config)).for_image(image)
        # The workload node is this project's own: what reads it checks it.
        body = {name: value for name, value in request.config.items() if name != "workload"}
        check_tree(body, framework.recipe_tree(), framework.schema, Naming.recipe(framework.recipe))
        return framework, request.config
    if request.factory is None:
        raise UserError("which recipe?\n  give --factory NAME or --yaml FILE; names: cloudai-run list")
    framework = framework_of(request.factory).for_image(image)
    return framework, framework.recipe_tree()


def _recipe_name(config: Config) -> str:
    workload = config.get("workload")
    name = workload.get("factory") if isinstance(workload, dict) else None
    if not isinstance(name, str):
        raise UserError("the configuration does not say which recipe it is of (workload.factory)")
    return name


def _smoke_or_not(
    request: Request, chosen: bool, executor: ExecutorSpec, local_gpus: int
) -> tuple[bool, tuple[str, ...]]:
    """Decides whether this is a CPU smoke run, and says why if nobody asked for one."""
    if request.smoke or executor.kind != "local" or local_gpus or request.dryrun:
        return request.smoke, ()
    if chosen:
        raise UserError(
            f"executor {executor.name} needs a GPU, and this machine has none\n"
            "  on the CPU: --smoke (not a benchmark); to see the command: --dryrun; on a cluster: run.executor=slurm"
        )
    return True, ("no executor was named and this machine has no GPU, so this is a smoke run on the CPU",)


def _layout(
    framework: Framework, base: Config, config: Config, executor: ExecutorSpec, local_gpus: int
) -> Layout:
    """Returns the executor's layout; where it leaves something open, the configuration's own."""
    own, recipe = framework.layout_of(config), framework.layout_of(base)
    local = executor.kind == "local"
    gpus = (
        _given(executor, "gpus_per_node")
        or _given(executor, "ntasks_per_node")
        or (local_gpus if local else 0)
    )
    layout = Layout(1 if local else _given(executor, "nodes") or own.num_nodes, gpus or own.num_gpus_per_node)
    for what, mine, wanted, before in (
        ("trainer.num_nodes", layout.num_nodes, own.num_nodes, recipe.num_nodes),
        ("trainer.devices", layout.num_gpus_per_node, own.num_gpus_per_node, recipe.num_gpus_per_node),
    ):
        if wanted not in (mine, before):
            field = "nodes" if what.endswith("num_nodes") else "ntasks_per_node"
            raise UserError(
                f"{what}={wanted} contradicts executor {executor.name}, which has {mine}\n"
                f"  the launcher sets {what} from the executor: run.executor.{field}={wanted}"
            )
    return layout


def _layout_fields(executor: ExecutorSpec, layout: Layout) -> Mapping[str, object]:
    tasks = {"ntasks_per_node": layout.num_gpus_per_node}
    return tasks if executor.kind == "local" else {"nodes": layout.num_nodes, **tasks}


def _given(executor: ExecutorSpec, field: str) -> int:
    value = executor.fields.get(field)
    return value if isinstance(value, int) else 0


def _version_note(framework: Framework, executor: ExecutorSpec) -> tuple[str, ...]:
    """Says in one line against which version the overrides were checked, where a container may hold another."""
    image = executor.fields.get("container_image")
    said = framework.version_note(str(image)) if image else None
    return (said,) if said else ()


def _check_rules(framework: Framework, config: Config, layout: Layout, force: bool) -> tuple[str, ...]:
    violations: Sequence[RuleViolation] = framework.violations(config, layout)
    if not violations:
        return ()
    if force:
        return tuple(f"warning: {violation.message} (--force)" for violation in violations)
    lines = [f"{framework.recipe} cannot run like this:"]
    lines += [f"  {violation.message}" for violation in violations[:4]]
    if len(violations) > 4:
        lines.append(f"  and {len(violations) - 4} more")
    raise UserError("\n".join([*lines, "  --force turns these rules into warnings"]))


def read_config(path: Path) -> Config:
    """Returns the configuration of a `--yaml` file (YAML, JSON or TOML by its suffix)."""
    from cloudai_run.recipes.serialize import read_tree

    return read_tree(path)
