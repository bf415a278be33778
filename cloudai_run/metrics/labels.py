"""Who printed a line: ranks and nodes from srun, mpirun, torchrun and torchx labels, and from file names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class Label:
    """Rank and node that a prefix or a file's name tells, each None where it tells none."""

    rank: int | None = None
    node: str | None = None


NO_LABEL = Label()

_MPIRUN = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:\s?")
_TORCHX = re.compile(r"([A-Za-z][\w.-]*)/(\d+) ")
_PDSH = re.compile(r"([A-Za-z][\w.-]*\d[\w.-]*): ")
_SRUN = re.compile(r"(\d{1,7}): ")
_TORCHRUN = re.compile(r"\[(?:default|rank)(\d+)\]:\s?")

_RANK_IN_NAME = re.compile(r"(?:^|[^A-Za-z])(?:rank|task|proc)[-_.]?(\d+)(?!\d)", re.IGNORECASE)
_JOB_NODE_TASK = re.compile(r"-\d+-(\d+)-(\d+)\.(?:txt|out|err|log)$")
_NODE_LOG = re.compile(r"node-\d+-(.+)\.log$")
_NODE_IN_NAME = re.compile(r"(?:^|[-_.])((?:node|host)[-_]?\d+)(?=[-_.]|$)", re.IGNORECASE)
_ATTEMPT = re.compile(r"attempt[-_.]?(\d+)", re.IGNORECASE)


def label_of(prefix: str) -> Label:
    """Returns the rank and node told by the text that stands before a step marker.

    Understood, in any sensible order: `12: ` (srun -l), `[1,12]<stdout>:` (mpirun --tag-output),
    `role/0 ` (torchx replica), `[default3]:` and `[rank3]:` (torchrun), `node7: ` (pdsh).
    """
    rank: int | None = None
    node: str | None = None
    replica: int | None = None
    rest = prefix.lstrip()
    while rest:
        if match := _SRUN.match(rest) or _MPIRUN.match(rest):
            rank = int(match[1])
        elif match := _TORCHRUN.match(rest):
            # torchrun numbers the processes of one replica, so it is the rank only on the first replica.
            rank = int(match[1]) if not replica else None
        elif match := _TORCHX.match(rest):
            node, replica = f"{match[1]}/{match[2]}", int(match[2])
            rank = replica
        elif match := _PDSH.match(rest):
            node = match[1]
        else:
            break
        rest = rest[match.end() :].lstrip()
    return Label(rank, node) if rank is not None or node is not None else NO_LABEL


def label_of_file(name: str) -> Label:
    """Returns the rank and node told by a file's name.

    Understood: `rank3`, `task_3`, `proc-3` anywhere, Slurm's `<name>-%j-%n-%t.txt`, `node7`, and the
    `node-<index>-<name>.log` of a run folder, whose lines carry the ranks.
    """
    base = PurePath(name).name
    if match := _NODE_LOG.match(base):
        return Label(node=match[1])
    if match := _JOB_NODE_TASK.search(base):
        return Label(int(match[2]), f"node {match[1]}")
    rank = _RANK_IN_NAME.search(base)
    node = _NODE_IN_NAME.search(base)
    return Label(int(rank[1]) if rank else None, node[1] if node else None)


def attempt_of_path(path: str) -> int | None:
    """Returns the attempt that a file's name or folder tells (`attempt-1/rank-0.log`), None without one."""
    found = _ATTEMPT.findall("/".join(PurePath(path).parts[-2:]))
    return int(found[-1]) if found else None
