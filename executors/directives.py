"""What a job asks of Slurm: the `#SBATCH` lines as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.nodelist import expand_nodelist
from cloudai_run.executors.slurm_options import Option, check_options, names

_TIME = re.compile(
    r"(?P<m>[0-9]+)(?::(?P<m_s>[0-9]+))?"
    r"|(?P<h>[0-9]+):(?P<h_m>[0-9]+):(?P<h_s>[0-9]+)"
    r"|(?P<d>[0-9]+)-(?P<d_h>[0-9]+)(?::(?P<d_m>[0-9]+)(?::(?P<d_s>[0-9]+))?)?"
)
_UNLIMITED = ("UNLIMITED", "INFINITE")
_FIELDS = names(
    "account partition qos time ntasks_per_node exclude reservation constraint segment switches gres "
    "gpus_per_node cpus_per_task mem comment output"
)


@dataclass(frozen=True, kw_only=True)
class Directives:
    """Options of sbatch; None or an empty value emits none.

    Attributes:
        nodes: number of nodes; None takes the length of `nodelist`, or 1.
        ntasks_per_node: ranks a node.
        nodelist: nodes as Slurm writes them, `node[1-4,7]`; exactly these nodes.
        time: "60", "60:00", "1:00:00", "1-12", "1-12:00", "1-12:00:00" or "UNLIMITED", as Slurm reads them: a
            bare number is minutes.
        segment: nodes that must lie together in one block (topology/block).
        switches: COUNT[@MAX-WAIT].
        gres: "gpu:8"; at most one of it and `gpus_per_node`; a cluster without GPU accounting gets neither.
        gpus_per_node: 8 or "h100:8".
        output: file of the job's own output; None puts `slurm-%j.out` into the run folder.
        sbatch: any further option of sbatch: `{"network": "sharp", "hold": None}`.
        srun: options for every srun of the job, the container's load included: `{"reservation": "r"}`.

    Raises:
        ExecutorError: for an option that Slurm does not know, a time in no form of Slurm's, or fields in
            conflict.
    """

    nodes: int | None = None
    ntasks_per_node: int = 1
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    segment: int | None = None
    switches: str | None = None
    time: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    gres: str | None = None
    gpus_per_node: int | str | None = None
    cpus_per_task: int | None = None
    mem: str | None = None
    exclusive: bool = False
    comment: str | None = None
    output: str | None = None
    sbatch: Mapping[str, Option] = field(default_factory=dict)
    srun: Mapping[str, Option] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("nodes", "ntasks_per_node", "segment", "cpus_per_task"):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < 1):
                raise ExecutorError(f"{name} is {number!r}: it must be a whole number of at least 1")
        self._check_nodes()
        if self.gres is not None and self.gpus_per_node is not None:
            raise ExecutorError(
                f"gres={self.gres!r} and gpus_per_node={self.gpus_per_node!r} both ask for GPUs: give one"
            )
        if self.time is not None:
            time_limit_s(self.time)
        for name, value in self._fields().items():
            if isinstance(value, str) and (not value or "\n" in value or "\0" in value):
                raise ExecutorError(f"{name.replace('-', '_')} is {value!r}: it must be one line of text")
        check_options(self.sbatch, "sbatch", "Directives.sbatch")
        check_options(self.srun, "srun", "Directives.srun")

    def _check_nodes(self) -> None:
        if self.exclude is not None:
            expand_nodelist(self.exclude)
        if self.nodelist is None:
            return
        named = expand_nodelist(self.nodelist)
        if self.nodes is not None and self.nodes != len(named):
            raise ExecutorError(
                f"nodes={self.nodes} contradicts nodelist={self.nodelist!r}, which names {len(named)} nodes"
                "\n  give the list alone: its length is the number of nodes"
            )
        excluded = set(named) & set(expand_nodelist(self.exclude) if self.exclude else ())
        if excluded:
            raise ExecutorError(f"nodelist and exclude both name {', '.join(sorted(excluded))}")

    @property
    def num_nodes(self) -> int:
        """Number of nodes that the job gets."""
        if self.nodelist is not None:
            return len(expand_nodelist(self.nodelist))
        return self.nodes or 1

    def _fields(self) -> dict[str, Option]:
        flags: dict[str, Option] = {
            name.replace("_", "-"): getattr(self, name) for name in _FIELDS if getattr(self, name) is not None
        }
        if self.nodelist is not None:
            flags["nodelist"] = self.nodelist
        else:
            flags["nodes"] = self.num_nodes
        if self.exclusive:
            flags["exclusive"] = None
        return flags

    def options(self) -> dict[str, Option]:
        """Returns every option of sbatch by its long name: a node list or a node count, never both."""
        merged = {**self._fields(), **check_options(self.sbatch, "sbatch", "Directives.sbatch")}
        return dict(sorted(merged.items()))

    def srun_options(self) -> dict[str, Option]:
        """Returns the options for every srun by their long names."""
        return check_options(self.srun, "srun", "Directives.srun")


def time_limit_s(time: str) -> int | None:
    """Returns a time limit in seconds; None for no limit.

    Raises:
        ExecutorError: if it is in none of Slurm's forms.
    """
    if time.upper() in _UNLIMITED:
        return None
    match = _TIME.fullmatch(time)
    if match is None:
        raise ExecutorError(
            f"time={time!r} is no time of Slurm's"
            "\n  right: MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, DAYS-HOURS:MINUTES, "
            "DAYS-HOURS:MINUTES:SECONDS or UNLIMITED"
        )
    parts = {name: int(value or 0) for name, value in match.groupdict().items()}
    days, hours = parts["d"], parts["h"] + parts["d_h"]
    minutes = parts["m"] + parts["h_m"] + parts["d_m"]
    seconds = parts["m_s"] + parts["h_s"] + parts["d_s"]
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
