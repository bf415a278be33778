"""The messages for overrides that do not fit: what is wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cloudai_run.errors import UserError
from cloudai_run.overrides.formatting import brief
from cloudai_run.overrides.mismatch import Mismatch, describe
from cloudai_run.overrides.names import is_slip
from cloudai_run.overrides.objects import choices
from cloudai_run.overrides.schema import SchemaLike, TargetLike, Tree, form, members
from cloudai_run.overrides.text import Path, join_path, shown, some_of
from cloudai_run.overrides.walk import UNSET, Lost, Place, Unset, is_node, node_target, nodes
from cloudai_run.overrides.words import Override

MAX_LINES = 6


@dataclass(frozen=True, slots=True)
class Naming:
    """How messages name the configuration that overrides apply to.

    Attributes:
        subject: what owns the parameters: the recipe's name, or an executor's.
        prefix: what stands before each path on the command line (`run.executor.`).
        show: the command that lists parameters, to which a path can be added; None where there is none.
    """

    subject: str
    prefix: str = ""
    show: str | None = None

    @staticmethod
    def recipe(name: str) -> Naming:
        """Returns the naming of a recipe."""
        return Naming(name, show=f"cloudai-run show {name}")

    def path(self, path: Iterable[str | int]) -> str:
        """Returns a path as it stands on the command line."""
        return self.prefix + join_path(path)

    def word(self, override: Override) -> str:
        """Returns a whole override as it stands on the command line."""
        mark = "+" if override.marked else ""
        return shown(f"{mark}{self.path(override.path)}{override.operator}{override.raw.strip()}", 100)


def fail(*lines: str) -> UserError:
    """Returns the error of these lines: the first says what is wrong, the others are indented."""
    return UserError("\n  ".join([line for line in lines if line][:MAX_LINES]))


def lost(
    error: Lost, override: Override, tree: dict[str, Tree], schema: SchemaLike, naming: Naming
) -> UserError:
    """Returns the error for a path that leaves the tree."""
    node, where = error.node, naming.path(error.at) or naming.subject
    if isinstance(error.name, int) or isinstance(node, list):
        return _bad_index(error, override, naming)
    if is_node(node) and isinstance(node, dict):
        return unknown(override, error.at, error.name, node, tree, schema, naming)
    first = f"{naming.word(override)}: {where} {_is(node)}, which has no parameters"
    return fail(first, f"set {where} itself first" if node in (None, UNSET) else "")


def _is(value: Tree | Unset) -> str:
    return "is not set" if value is UNSET else f"is {brief(value)}"


def _bad_index(error: Lost, override: Override, naming: Naming) -> UserError:
    where, node = naming.path(error.at) or naming.subject, error.node
    if not isinstance(node, list):
        return fail(f"{naming.word(override)}: {where} {_is(node)}, which is no list")
    if isinstance(error.name, str):
        hint = f"an element of it is {where}[0]" if node else ""
        return fail(f"{naming.word(override)}: {where} is a list, which has no parameters", hint)
    if not node:
        return fail(f"{naming.word(override)}: {where} is an empty list", f"add to it with {where}+=[...]")
    last = f"the last element is {where}[{len(node) - 1}]"
    return fail(f"{naming.word(override)}: {where} has no element {error.name}", last)


def unknown(
    override: Override,
    at: Path,
    name: str,
    node: dict[str, Tree],
    tree: dict[str, Tree],
    schema: SchemaLike,
    naming: Naming,
) -> UserError:
    """Returns the error for a name that a config node does not have."""
    target = node_target(node, schema)
    known = known_names(node, target)
    kwargs = target is None or target.var_kwargs
    similar = _similar(name, known)
    near = _near_paths(override.path, at, similar, tree, schema)
    lines = [f"{naming.subject} has no parameter {shown(naming.path((*at, name)), 100)}"]
    lines.append(f"{_owner(at, str(node['_target_']), naming)} accepts: {some_of(known) or 'nothing'}")
    if near:
        lines.append(f"did you mean {' or '.join(naming.prefix + path for path in near)}?")
    elif not at and naming.show and is_slip(name, ["run"]):
        lines.append(f"did you mean {join_path(('run', *override.path[1:]))}?")
    if kwargs and not override.marked and not similar:
        mark = naming.word(override)
        lines.append(f"it takes further arguments (**kwargs): write +{mark} if this one is meant")
    if kwargs and override.marked and similar:
        lines.append("it differs too little from that one to be meant for another argument")
    if naming.show:
        lines.append(f"all of them: {' '.join([naming.show, *[join_path(at)] * bool(at)])}")
    return fail(*lines)


def _owner(at: Iterable[str | int], target: str, naming: Naming) -> str:
    path = join_path(at)
    owner = naming.prefix + path if path else naming.subject
    return owner if target == owner else f"{owner} ({target})"


def known_names(node: Mapping[str, Tree], target: TargetLike | None) -> list[str]:
    """Returns the names that a node accepts, those that it sets first."""
    params = target.params if target is not None else {}
    takes_any = target is None or target.var_kwargs
    own = [key for key in node if not key.startswith("_") and (takes_any or key in params)]
    return [*own, *(name for name in params if name not in node)]


def _similar(name: str, known: list[str]) -> list[str]:
    from cloudai_run.recipes.suggest import did_you_mean

    similar = did_you_mean(name, known, limit=2)
    return similar[:1] if similar and is_slip(name, similar[:1]) else similar


def _near_paths(
    path: Path, at: Path, similar: list[str], tree: dict[str, Tree], schema: SchemaLike
) -> list[str]:
    """Returns up to two existing paths that may be meant: similar names here, or the last name elsewhere."""
    rest = path[len(at) + 1 :]
    near = [(*at, other, *rest) for other in similar]
    found = [other for other in near if _exists(other, tree, schema)] or [(*at, o[len(at)]) for o in near]
    if not found:
        elsewhere = list(leaf_paths(tree, schema))
        elsewhere.sort(key=lambda other: not _is_set(other, tree))
        leaf = str(path[-1])
        found = [other for other in elsewhere if other[-1] == leaf]
        if not found:
            found = [other for other in elsewhere if is_slip(leaf, [str(other[-1])])]
    return [join_path(other) for other in found[:2]]


def _is_set(path: Path, tree: Tree) -> bool:
    for segment in path:
        if isinstance(tree, dict) and isinstance(segment, str) and segment in tree:
            tree = tree[segment]
        else:
            return False
    return True


def leaf_paths(tree: dict[str, Tree], schema: SchemaLike) -> Iterator[Path]:
    """Yields the paths of all parameters of all nodes that a tree sets."""
    for path, node in nodes(tree):
        for name in known_names(node, node_target(node, schema)):
            yield (*path, name)


def _exists(path: Path, tree: dict[str, Tree], schema: SchemaLike) -> bool:
    from copy import deepcopy

    from cloudai_run.overrides.walk import find

    try:
        return find(deepcopy(tree), path, schema).known
    except Lost:
        return False


def mismatch(
    error: Mismatch, override: Override, place: Place, node_type: str, schema: SchemaLike, naming: Naming
) -> UserError:
    """Returns the error for a value that does not fit."""
    *at, name = place.path
    signature = f"{name}: {describe(place.spec, 70)}"
    if place.default is not UNSET:
        signature += f" = {brief(place.default)}"
    owner = _owner(at, node_type, naming)
    lines = [f"{naming.word(override)}: {error.reason}"]
    if isinstance(name, str) and node_type:
        current = place.current()
        now = f", now {brief(current)}" if current is not UNSET else ""
        lines.append(f"{owner} has {signature}{now}")
    lines += error.hints
    if not error.hints and not error.depth:
        lines.append(_object_choices(place, schema))
    return fail(*lines)


def _object_choices(place: Place, schema: SchemaLike) -> str:
    for member in members(place.spec):
        name, args = form(member)
        if name == "object":
            base = str(args[0])
            names = choices(base, schema)
            return f"{base.rpartition('.')[2]} can be: {some_of(names)}" if names else ""
    return ""


def clash(override: Override, earlier: Override, same_path: bool, naming: Naming) -> UserError:
    """Returns the error for an assignment that would drop what an earlier override set."""
    word, before = naming.word(override), naming.word(earlier)
    if same_path:
        return fail(f"{naming.path(override.path)} is given twice: {before} and {word}")
    return fail(
        f"{word} would drop the earlier {before}",
        f"put {word} first: overrides apply from left to right",
    )
