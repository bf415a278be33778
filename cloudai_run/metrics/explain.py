"""What a known failure says of the container that the run was in, where the run's configuration helps to tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cloudai_run.metrics.samples import Failure, ParsedLog
from cloudai_run.recipes.paxml.advice import explain_unknown_flags
from cloudai_run.recipes.paxml.xla import UNKNOWN

UNKNOWN_FLAG = "xla_unknown_flag"


def explained(log: ParsedLog, config: object) -> ParsedLog:
    """Returns the log whose failures about unknown XLA flags name the flags and the jaxlib versions without them.

    Args:
        log: of one stage.
        config: the run's configuration; a PAXML recipe names its jaxlib in `workload.jaxlib`.
    """
    return replace(log, failures=tuple(_explained(failure, _jaxlib(config)) for failure in log.failures))


def _explained(failure: Failure, jaxlib: str) -> Failure:
    if failure.kind != UNKNOWN_FLAG:
        return failure
    advice = explain_unknown_flags(failure.message, jaxlib)
    return replace(failure, advice=advice) if advice else failure


def _jaxlib(config: object) -> str:
    workload = config.get("workload") if isinstance(config, Mapping) else None
    named = workload.get("jaxlib") if isinstance(workload, Mapping) else None
    return named if isinstance(named, str) else UNKNOWN
