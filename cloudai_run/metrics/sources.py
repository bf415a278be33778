"""Which files are the logs: folders searched, links and copies left out, ranks told by the files' names."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cloudai_run.errors import UserError
from cloudai_run.metrics.labels import NO_LABEL, Label, attempt_of_path, label_of_file

LOG_SUFFIXES = frozenset({".log", ".out", ".err", ".txt", ".stdout", ".stderr", ""})
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"(\xb5/\xfd": "zstd"}
_NODE_LOG = re.compile(r"node-\d+-.+\.log$")
_RANK_LOG = re.compile(r"rank-\d+\.log$")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read, or standard input if `path` is None."""

    name: str
    path: Path | None
    label: Label


def expand(paths: Sequence[Path | str]) -> list[Source]:
    """Returns the sources that the paths stand for, in order of attempt, each file once.

    Raises:
        UserError: a path does not exist, is compressed, or a folder holds no log.
    """
    sources: list[Source] = []
    seen: set[tuple[int, int]] = set()
    for given in paths:
        if str(given) == "-":
            sources.append(Source("<stdin>", None, NO_LABEL))
            continue
        for path in _files(Path(given)):
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            _refuse_compressed(path)
            sources.append(Source(str(path), path, label_of_file(path.name)))
    if not sources:
        raise UserError("no log to read: give a run folder, log files, or - for standard input")
    return sorted(sources, key=lambda source: attempt_of_path(source.name) or 0)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = [
            Path(folder) / name
            for folder, _, names in sorted(os.walk(path))
            for name in sorted(names)
            if Path(name).suffix.lower() in LOG_SUFFIXES and (Path(folder) / name).is_file()
        ]
        # A run folder holds rank 0's lines twice: among the node's, and by themselves.
        by_node = {log.parent for log in found if _NODE_LOG.match(log.name)}
        found = [log for log in found if log.parent not in by_node or not _RANK_LOG.match(log.name)]
        if not found:
            raise UserError(f"{path} holds no log ({', '.join(sorted(LOG_SUFFIXES - {''}))})")
        return found
    if not path.exists():
        raise UserError(f"no such file: {path}")
    return [path]


def _refuse_compressed(path: Path) -> None:
    if not path.is_file():
        return
    with path.open("rb") as stream:
        start = stream.read(6)
    for magic, kind in _COMPRESSED.items():
        if start.startswith(magic):
            raise UserError(f"{path} is compressed ({kind}): unpack it, or pipe it in and give - as the file")


def number_by_name(sources: Sequence[Source]) -> list[Source]:
    """Gives ranks to files that differ by one number only, if the numbers are 0, 1, ... n-1.

    Numbers of another kind (job ids, times) tell attempts and not ranks, and are left alone.
    """
    if len(sources) < 2 or any(source.label.rank is not None for source in sources):
        return list(sources)
    names = [_NUMBERS.split(Path(source.name).name) for source in sources]
    numbers = [_NUMBERS.findall(Path(source.name).name) for source in sources]
    if any(name != names[0] for name in names):
        return list(sources)
    columns = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    if len(columns) != 1 or sorted(map(int, columns[0])) != list(range(len(sources))):
        return list(sources)
    return [
        dataclasses.replace(source, label=Label(int(rank), source.label.node))
        for source, rank in zip(sources, columns[0], strict=True)
    ]
