"""What a PAXML run's error says about its container."""

from __future__ import annotations

import re

from cloudai_run.recipes.paxml import xla

# Up to jaxlib 0.5.0 the line goes on to list valid flags after two spaces.
_UNKNOWN = re.compile(r"Unknown flags?(?:\(s\))? in XLA_FLAGS: (.*?)(?:  |$)")


def unknown_flags(line: str) -> list[str]:
    """Returns the flags that XLA did not know, from its error line; none for any other line."""
    match = _UNKNOWN.search(line)
    return re.findall(r"--(xla_[a-z0-9_]+)", match[1]) if match else []


def explain_unknown_flags(line: str, jaxlib: str) -> str | None:
    """Returns what XLA's line about unknown flags says of the container, None for any other line.

    Args:
        line: of a rank's log.
        jaxlib: the version that the recipe names, or `unknown`.
    """
    names = unknown_flags(line)
    if not names:
        return None
    found = _versions_without(names)
    measured = [name for name in names if name in xla.table().flags]
    text = f"the container's jaxlib does not know {', '.join(names)}"
    if jaxlib != xla.UNKNOWN and any(xla.status(name, "", jaxlib) == "accepted" for name in measured):
        text += f", which jaxlib {jaxlib} does: the container has another version than workload.jaxlib says"
    if measured and found:
        text += f"\n  it is {_ranges(found)} by that; name it in workload.jaxlib, and the login node says what to set"
    elif not measured:
        text += "\n  no version that was measured has been tried with it: is the name right?"
    return text


def _versions_without(names: list[str]) -> list[str]:
    """Returns the measured versions that reject every one of the flags that were measured."""
    known = [name for name in names if name in xla.table().flags]
    return [
        version
        for version in xla.table().versions
        if known and all(xla.status(name, "", version) == "rejected" for name in known)
    ]


def _ranges(versions: list[str]) -> str:
    """Returns versions as ranges: `0.4.35 or later`, `0.4.23 to 0.4.28`."""
    every = list(xla.table().versions)
    parts: list[str] = []
    start = previous = versions[0]
    for version in [*versions[1:], None]:
        if version is not None and every.index(version) == every.index(previous) + 1:
            previous = version
            continue
        if previous == every[-1]:
            parts.append(f"{start} or later")
        elif start == every[0]:
            parts.append(f"{previous} or earlier")
        else:
            parts.append(start if start == previous else f"{start} to {previous}")
        if version is not None:
            start = previous = version
    return ", or ".join(parts)
