"""How a rank is wrapped in `nsys profile`."""

from __future__ import annotations

import re

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Nsys, NsysCapture

# nsys's short options for the long ones: both name the same thing when options are merged.
# Source: Nsight Systems user guide 2024.5, "CLI Profile Command Switch Options".
_LONG = {
    "b": "backtrace",
    "c": "capture-range",
    "d": "duration",
    "e": "env-var",
    "f": "force-overwrite",
    "n": "inherit-environment",
    "o": "output",
    "s": "sample",
    "t": "trace",
    "w": "show-output",
    "x": "stop-on-exit",
    "y": "delay",
}
_DEFAULTS = {
    "s": "none",
    "capture-range": "cudaProfilerApi",
    "capture-range-end": "stop",
    "cuda-graph-trace": "node",
    "force-overwrite": "true",
}
_CAPTURE = ("capture-range", "capture-range-end")


def merged_options(nsys: Nsys) -> dict[str, str]:
    """Returns the options of `nsys profile`: the defaults, with the user's over them by name.

    Raises:
        ExecutorError: for an option that is not nsys's way of writing one, is given twice, or would move the report.
    """
    merged = {
        name: value
        for name, value in _DEFAULTS.items()
        if nsys.capture is NsysCapture.API or name not in _CAPTURE
    }
    seen: set[str] = set()
    for given, value in nsys.options.items():
        name = given.lstrip("-").replace("_", "-")
        if (
            not re.fullmatch(r"[a-z][a-z0-9-]*", name)
            or not isinstance(value, str | None)
            or "\0" in (value or "")
        ):
            raise ExecutorError(
                f"Nsys.options[{given!r}] = {value!r} is no option of nsys profile with a text value"
            )
        long = _LONG.get(name, name)
        if long == "output":
            raise ExecutorError(
                "Nsys.options cannot hold output: the report lies in the run folder, see report_path"
            )
        if long in seen:
            raise ExecutorError(f"Nsys.options gives {long} twice")
        seen.add(long)
        for default in [default for default in merged if _LONG.get(default, default) == long]:
            del merged[default]
        if value is not None:
            merged[name] = value
    return merged


def option_words(nsys: Nsys) -> tuple[str, ...]:
    """Returns the merged options as arguments of `nsys profile`, in a fixed order."""
    words: list[str] = []
    for name, value in merged_options(nsys).items():
        if len(name) == 1:
            words += [f"-{name}", value]
        elif value in ("true", "false"):
            words += [f"--{name}", value]
        else:
            words.append(f"--{name}={value}")
    return tuple(words)


def report_stem(run_dir: str, job_name: str, stage_name: str) -> str:
    """Returns the path of a stage's reports up to the number of the rank."""
    return f"{run_dir}/nsys/{job_name}.{stage_name}.rank"


def report_path(run_dir: str, job_name: str, stage_name: str, rank: int = 0) -> str:
    """Returns the path of the report that nsys writes for one rank of a stage."""
    return f"{report_stem(run_dir, job_name, stage_name)}{rank}.nsys-rep"
