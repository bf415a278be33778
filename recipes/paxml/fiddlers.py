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
    given = {name: flags.__arguments__[name] for name in xla.table().flags if name in flags.__arguments__}
    before = {name: value for name, value in given.items() if value is not None}
    after, done = xla.fitted(before, jaxlib)
    for name in before.keys() - after.keys():
        delattr(flags, name)
    for name, value in after.items():
        setattr(flags, name, value)
    return done
