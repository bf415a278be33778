"""What is known of PAXML's experiment classes, and the parameters of a PAXML recipe as a schema for overrides.

The knobs stand in data/experiments.json, written by exporter.py where PAXML is installed. PAXML itself accepts a knob
that a class does not have, and one that it never reads, without a word.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import nodes
from cloudai_run.recipes.paxml.spec import NODES_MODULE, TypeSpec, spec_of
from cloudai_run.recipes.suggest import did_you_mean

SCHEMA_ID = "paxml_2024_08_20"
KNOBS_MODULE = "cloudai_run.recipes.paxml.knobs"
ROOT_TARGET = "cloudai_run.recipes.paxml.task.pretrain"
OPEN_KNOBS_TARGET = f"{KNOBS_MODULE}.OpenKnobs"

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Param:
    """One parameter of a node: a type of the schema's language, and a default."""

    type: TypeSpec
    default: object = None
    has_default: bool = True

    @property
    def required(self) -> bool:
        """Whether a configuration must give it."""
        return not self.has_default


@dataclass(frozen=True)
class Target:
    """A class or function that a node of a recipe calls."""

    name: str
    params: Mapping[str, Param]
    kind: str = "class"
    var_kwargs: bool = False
    dataclass: bool = False
    bases: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """An experiment class.

    Attributes:
        name: dotted path, as `--fdl_config` takes it.
        source: the version of PAXML that the knobs were read from.
        knobs: NAME to default, the class's own spelling.
        ignored: knobs that the class has and never reads.
    """

    name: str
    source: str
    knobs: Mapping[str, Json]
    ignored: frozenset[str] = frozenset()

    @property
    def settable(self) -> list[str]:
        """The knobs that have an effect, as a recipe spells them (lower case)."""
        return [name.lower() for name in self.knobs if name not in self.ignored]


@dataclass(frozen=True)
class Schema:
    """The targets of PAXML recipes, in the form that overrides are checked against."""

    id: str
    targets: Mapping[str, Target]
    experiments: Mapping[str, Experiment]
    recipes: Mapping[str, object] = field(default_factory=dict)
    enums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    factories: Mapping[str, Mapping[str, typing.Never]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=lambda: {"paxml": "2024-08-20"})

    def target(self, dotted: str) -> Target:
        """Returns a target by its dotted name.

        Raises:
            RecipeError: if there is none of that name.
        """
        if dotted not in self.targets:
            raise RecipeError(f"no PAXML recipe has a node {dotted}{hint(dotted, self.targets)}")
        return self.targets[dotted]


def hint(name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """Returns a line that suggests what `name` may have meant, or nothing."""
    near = did_you_mean(name, known)
    return f"\n  did you mean {' or '.join(near)}?" if near else ""


def _user_files() -> list[Path]:
    configured = os.environ.get("CLOUDAI_RUN_SCHEMA_DIR")
    folder = Path(configured) if configured else Path.home() / ".config" / "cloudai-run" / "schemas"
    return sorted(folder.glob("paxml-*.json"))


def _experiment(name: str, sources: Mapping[str, Mapping[str, Json]]) -> Experiment:
    """Returns the newest of the versions that are known; they are written oldest first."""
    *_, source = sources
    entry = sources[source]
    knobs, ignored, like = entry["knobs"], entry["ignored"], entry.get("like")
    assert isinstance(knobs, dict)
    assert isinstance(ignored, list)
    if isinstance(like, str):
        older = sources[like]["knobs"]
        assert isinstance(older, dict)
        knobs = {**older, **knobs}
    return Experiment(name, source, MappingProxyType(knobs), frozenset(map(str, ignored)))


@cache
def _file() -> tuple[Mapping[str, TypeSpec], Mapping[str, Experiment]]:
    """Returns the types of all knobs, and the experiments of the package and of the user's files."""
    package = json.loads((Path(__file__).parent / "data" / "experiments.json").read_text(encoding="utf-8"))
    experiments = {name: _experiment(name, sources) for name, sources in package["experiments"].items()}
    for path in _user_files():
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))["experiments"]
            experiments |= {name: _experiment(name, sources) for name, sources in entries.items()}
        except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
            raise RecipeError(
                f"{path} is no file of recipes/paxml/exporter.py: {error or type(error).__name__}"
            ) from error
    return MappingProxyType(package["types"]), MappingProxyType(experiments)


def experiments() -> Mapping[str, Experiment]:
    """Returns every known experiment class by its dotted name."""
    return _file()[1]


def experiment(fdl_config: str) -> Experiment | None:
    """Returns what is known of an experiment class; None for one that nothing is known of."""
    return experiments().get(fdl_config)


def knob_type(name: str) -> TypeSpec:
    """Returns the type of a knob; `any` for one that no known class has. `name` in either case."""
    known = _file()[0].get(name.upper())
    if known is not None:
        return known
    for found in experiments().values():
        if name.upper() in found.knobs:
            return _type_of(found.knobs[name.upper()])
    return "any"


def _type_of(value: Json) -> TypeSpec:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list):
        return ["list", _type_of(value[0])] if value else ["list", "any"]
    return {int: "int", float: "float", str: "str"}.get(type(value), "any")


def knobs_target(fdl_config: str) -> str:
    """Returns the `_target_` of the `fdl` node of a recipe of this experiment class."""
    return f"{KNOBS_MODULE}.{fdl_config}" if fdl_config in experiments() else OPEN_KNOBS_TARGET


def check_knob(fdl_config: str, name: str) -> None:
    """Refuses a knob that an experiment class does not have, or has and never reads.

    Raises:
        RecipeError: with what the class accepts. Never for a class that nothing is known of.
    """
    found = experiment(fdl_config)
    if found is None or name in found.settable:
        return
    accepts = f"  it reads {len(found.settable)} knobs (as of {found.source})"
    if name.upper() in found.ignored:
        raise RecipeError(
            f"{fdl_config} ignores fdl.{name}: the class has {name.upper()} and never reads it\n"
            f"{accepts}{_instead(found, name)}"
        )
    if name.upper() in _file()[0]:
        raise RecipeError(
            f"{fdl_config} ignores fdl.{name}: other experiment classes have {name.upper()}, this one has not\n"
            f"{accepts}{_instead(found, name)}"
        )
    raise RecipeError(f"{fdl_config} has no knob fdl.{name}\n{accepts}{hint(name, found.settable)}")


def _instead(found: Experiment, name: str) -> str:
    own = f"cloudai_run_paxml.{found.name.rpartition('.')[2]}"
    if name == "max_steps" and own in experiments():
        return f"\n  fdl_config={own} is the same model and ends after max_steps"
    if name == "num_gpus":
        meshes = [
            knob for knob in ("ici_mesh_shape", "dcn_mesh_shape", "num_groups") if knob in found.settable
        ]
        return f"\n  the devices are the product of the meshes: set {', '.join(meshes)}"
    return hint(name, found.settable)


def _knobs_targets() -> dict[str, Target]:
    targets: dict[str, Target] = {}
    for name, found in experiments().items():
        params = {
            knob.lower(): Param(knob_type(knob), default)
            for knob, default in found.knobs.items()
            if knob not in found.ignored
        }
        targets[f"{KNOBS_MODULE}.{name}"] = Target(f"{KNOBS_MODULE}.{name}", MappingProxyType(params))
    every = {name.lower(): Param(spec) for name, spec in _file()[0].items()}
    targets[OPEN_KNOBS_TARGET] = Target(OPEN_KNOBS_TARGET, MappingProxyType(every), var_kwargs=True)
    return targets


def _param(field: dataclasses.Field[object], annotation: object) -> Param:
    if field.default is not dataclasses.MISSING:
        return Param(spec_of(annotation), field.default)
    if field.default_factory is not dataclasses.MISSING:
        return Param(spec_of(annotation), field.default_factory())
    return Param(spec_of(annotation), has_default=False)


def _node_target(node: type) -> Target:
    hints = typing.get_type_hints(node)
    params = {field.name: _param(field, hints[field.name]) for field in dataclasses.fields(node)}
    return Target(f"{NODES_MODULE}.{node.__name__}", MappingProxyType(params), dataclass=True)


def _root_target() -> Target:
    parts = {"xla": nodes.XlaFlags, "pgle": nodes.Pgle, "nsys": nodes.Nsys, "workload": nodes.Workload}
    params = {"fdl_config": Param("str", has_default=False), "fdl": Param("any", has_default=False)}
    params |= {name: Param(spec_of(node), has_default=False) for name, node in parts.items()}
    return Target(ROOT_TARGET, MappingProxyType(params), kind="function")


@cache
def load() -> Schema:
    """Returns the schema of all PAXML recipes."""
    own = [nodes.StageFlags, nodes.XlaFlags, nodes.Pgle, nodes.Nsys, nodes.Workload]
    targets = {target.name: target for target in map(_node_target, own)}
    targets |= {ROOT_TARGET: _root_target(), **_knobs_targets()}
    return Schema(SCHEMA_ID, MappingProxyType(targets), experiments())


def retarget(tree: Mapping[str, Json], fdl_config: str) -> dict[str, Json]:
    """Returns a recipe's tree for another experiment class: the same knobs, checked against that class.

    Overrides of `fdl_config` come first: the knobs that the others may set follow from it.

    Raises:
        RecipeError: for a knob that the recipe sets and the class does not read.
    """
    knobs = tree["fdl"]
    assert isinstance(knobs, dict)
    for name in knobs:
        if not name.startswith("_"):
            check_knob(fdl_config, name)
    return {**tree, "fdl_config": fdl_config, "fdl": {**knobs, "_target_": knobs_target(fdl_config)}}
