"""Named changes of PAXML recipes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from cloudai_run.recipes.paxml import xla

if TYPE_CHECKING:
    import nemo_run as run


def modern_xla(recipe: run.Partial, jaxlib: str | None = None) -> run.Partial:
    """Returns the recipe with XLA flags that a jaxlib takes: rejected ones replaced where something took their place.

    Args:
        recipe: the recipe, which stays as it is.
        jaxlib: the version; None takes the one that the recipe names, or the newest that was measured.
    """
    changed = copy.deepcopy(recipe)
    named = changed.workload.jaxlib
    version = jaxlib or (named if named != xla.UNKNOWN else xla.table().versions[-1])
    xla.check_version(version)
    changed.workload.jaxlib = version
    for part in xla.SETS:
        drop_rejected(getattr(changed.xla, part), version)
    return changed


def drop_rejected(flags: run.Config, jaxlib: str) -> list[str]:
    """Replaces or drops in place the flags that a jaxlib rejects; returns what was done, one text a flag."""
    done: list[str] = []
    given = {name: flags.__arguments__[name] for name in xla.table().flags if name in flags.__arguments__}
    for name, value in given.items():
        if value is None:
            continue
        new = _successor(name, value, jaxlib)
        if xla.problem(name, value, jaxlib) is None and not (new and new[2]):
            continue
        delattr(flags, name)
        if new is None:
            done.append(f"{name} dropped")
        else:
            setattr(flags, new[0], typed(new[0], new[1]))
            done.append(f"{name} became {new[0]}={new[1]}")
    return done


def _successor(name: str, value: xla.Value, jaxlib: str) -> tuple[str, str, bool] | None:
    """Returns the flag and value that take a flag's place, and whether they do so although it is accepted."""
    replaced = xla.table().flags[name].replaced_by
    new = replaced.values.get(xla.text_of(value)) if replaced else None
    if replaced is None or new is None or xla.status(replaced.flag, new, jaxlib) != "accepted":
        return None
    return replaced.flag, new, replaced.supersedes


def typed(flag: str, text: str) -> xla.Value:
    """Returns the text of a flag's value as the type that the flag has."""
    kind = xla.table().flags[flag].type
    if kind == "bool":
        return text == "true"
    return int(text) if kind == "int" else text
