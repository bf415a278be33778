"""How ranks are wrapped in `nsys profile`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.words import NodeVar, Word, check_count, check_line

# nsys's short options and the long ones that they stand for, so that both name the same thing in a merge.
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


class NsysCapture(StrEnum):
    """API: from cudaProfilerStart to cudaProfilerStop. WHOLE: the program from beginning to end."""

    API = "api"
    WHOLE = "whole"


@dataclass(frozen=True, kw_only=True)
class Nsys:
    """Wraps the chosen ranks of a stage in `nsys profile`; the report lies at `report_path(...)`.

    Attributes:
        ranks: ranks to wrap, counted from 0.
        options: merged by name over the defaults; the user's wins, None drops a default. Names as nsys writes
            them, long or short, with or without dashes: `{"trace": "cuda,nvtx", "s": "cpu"}`.
        capture: API captures nothing unless the program calls cudaProfilerStart.
        binary: name or path of nsys where the rank runs.

    Raises:
        ExecutorError: for an option that nsys could not read, is given twice, or moves the report.
    """

    ranks: tuple[int, ...] = (0,)
    options: Mapping[str, str | None] = field(default_factory=dict)
    capture: NsysCapture = NsysCapture.API
    binary: str = "nsys"

    def __post_init__(self) -> None:
        if not self.ranks or len(set(self.ranks)) != len(self.ranks):
            raise ExecutorError(f"Nsys.ranks is {self.ranks!r}: it must name at least one rank, each once")
        for rank in self.ranks:
            check_count(rank, 0, "Nsys.ranks")
        check_line(self.binary, "Nsys.binary")
        merged_options(self)


def merged_options(nsys: Nsys) -> dict[str, str]:
    """Returns the options of `nsys profile`: the defaults, with the user's over them by name."""
    merged = dict(_DEFAULTS)
    if NsysCapture(nsys.capture) is NsysCapture.WHOLE:
        for name in _CAPTURE:
            del merged[name]
    seen: set[str] = set()
    for given, value in nsys.options.items():
        name = _checked_name(given, value)
        meaning = _LONG.get(name, name)
        if meaning in seen:
            raise ExecutorError(f"Nsys.options gives {meaning} twice")
        seen.add(meaning)
        for default in [known for known in merged if _LONG.get(known, known) == meaning]:
            del merged[default]
        if value is not None:
            merged[name] = value
    return merged


def _checked_name(given: str, value: str | None) -> str:
    name = given.lstrip("-").replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ExecutorError(
            f"Nsys.options has {given!r}: an option of nsys profile has small letters and dashes"
        )
    if value is not None:
        check_line(value, f"Nsys.options[{given!r}]")
    if _LONG.get(name, name) == "output":
        raise ExecutorError("Nsys.options cannot hold output: the reports lie in the run folder under nsys/")
    return name


def profile_words(nsys: Nsys, run_dir: str, job_name: str, stage_name: str) -> tuple[Word, ...]:
    """Returns what stands before the program on a wrapped rank."""
    words: list[Word] = [nsys.binary, "profile"]
    for name, value in merged_options(nsys).items():
        if len(name) == 1:
            words += [f"-{name}", value]
        elif value in ("true", "false"):
            words += [f"--{name}", value]
        else:
            words.append(f"--{name}={value}")
    # nsys reads % in the name of a report as the beginning of a macro.
    stem = _report_stem(run_dir, job_name, stage_name).replace("%", "%%")
    return (*words, "-o", (stem, NodeVar("SLURM_PROCID")))


def report_path(run_dir: str, job_name: str, stage_name: str, rank: int = 0) -> str:
    """Returns the path of the report that nsys writes for one rank of a stage."""
    return f"{_report_stem(run_dir, job_name, stage_name)}{rank}.nsys-rep"


def _report_stem(run_dir: str, job_name: str, stage_name: str) -> str:
    return f"{run_dir}/nsys/{job_name}.{stage_name}.rank"
