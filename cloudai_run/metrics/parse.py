"""From files to one `ParsedLog`: sources are read one by one, then put together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from cloudai_run.errors import UserError
from cloudai_run.metrics.assemble import assemble
from cloudai_run.metrics.detect import FORMATS
from cloudai_run.metrics.formats.base import Collector, Format
from cloudai_run.metrics.labels import attempt_of_path, label_of_file
from cloudai_run.metrics.samples import FormatName, ParsedLog
from cloudai_run.metrics.scan import Pipe, Scanned, scan
from cloudai_run.metrics.sources import Source, expand, number_by_name

STDIN = "-"


def parse_files(
    paths: Sequence[Path | str], *, stage: str | None = None, format: FormatName | None = None
) -> ParsedLog:
    """Reads the logs of one stage; folders are searched for logs, and `-` is standard input.

    Args:
        paths: files of one run in one format; several are taken as its ranks, streams or attempts.
        stage: the stage's name, for the result.
        format: reads the files as this format, whatever they look like.

    Raises:
        UserError: nothing to read, a file that is no text log, no known format, or several formats.
    """
    sources = number_by_name(expand(paths))
    given = FORMATS[format] if format else None
    scanned: list[Scanned] = []
    for source in sources:
        expected = next((one.format for one in scanned if one.format), None)
        scanned.append(_scan_source(source, given, expected))
    return assemble(scanned, stage=stage)


def parse_stream(stream: BinaryIO, name: str = "<stdin>", *, format: FormatName | None = None) -> ParsedLog:
    """Reads one binary stream to its end.

    Raises:
        UserError: no known format.
    """
    label = label_of_file(name)
    found = Collector(name, label.rank, label.node)
    return assemble([scan(Pipe(stream), found, FORMATS[format] if format else None)], stage=None)


def parse_run(run_dir: Path, *, stages: Sequence[str] | None = None) -> dict[str, ParsedLog]:
    """Reads a run folder: `logs/<stage>/...`, in the order of the run's stages.

    Args:
        run_dir: the folder; without `logs/` its own files are read as one stage named `log`.
        stages: the stages to read, in order; by default those that `run.json` names, then any other folder.

    Returns:
        One log a stage that has a folder and holds a known format. A stage without a known step line (a
        container load, a conversion) is left out, unless that leaves nothing.

    Raises:
        UserError: the folder holds no log of a known format.
    """
    logs = run_dir / "logs"
    if not logs.is_dir():
        return {"log": parse_files([run_dir], stage="log")}
    folders = {entry.name: entry for entry in sorted(logs.iterdir()) if entry.is_dir()}
    if not folders:
        return {"log": parse_files([logs], stage="log")}
    wanted = list(stages) if stages is not None else [*_stages_of(run_dir), *folders]
    found: dict[str, ParsedLog] = {}
    refused: list[str] = []
    for stage in dict.fromkeys(name for name in wanted if name in folders):
        try:
            found[stage] = parse_files([folders[stage]], stage=stage)
        except UserError as error:
            refused.append(f"{stage}: {str(error).splitlines()[0]}")
    if not found:
        raise UserError("\n".join([f"no stage of {run_dir} holds a log that is known", *refused[:4]]))
    return found


def _stages_of(run_dir: Path) -> list[str]:
    """Returns the names of the stages in `run.json`, empty if there is none."""
    try:
        record: object = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    stages = record.get("stages") if isinstance(record, Mapping) else None
    names = [stage.get("name") for stage in stages or [] if isinstance(stage, Mapping)]
    return [name for name in names if isinstance(name, str)]


def _scan_source(source: Source, given: Format | None, expected: Format | None) -> Scanned:
    collector = Collector(source.name, source.label.rank, source.label.node)
    collector.attempt = attempt_of_path(source.name) or 0
    if source.path is None:
        return scan(Pipe(sys.stdin.buffer), collector, given, expected)
    with source.path.open("rb", buffering=0) as stream:
        return scan(stream if stream.seekable() else Pipe(stream), collector, given, expected)
