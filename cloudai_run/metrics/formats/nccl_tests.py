"""nccl-tests: the table on stdout (columns by its header) and the JSON file of newer versions.

Tables differ by version: 13 columns since 2.13, 12 before (no root, or no redop; an `error` instead of
`#wrong`), more with per-iteration reports. So the header tells where a value stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from cloudai_run.metrics.formats.base import (
    Collector,
    Format,
    Line,
    Place,
    number,
    positive,
    whole_number,
    without_ansi,
)
from cloudai_run.metrics.samples import BusRow, BusTable

_HEADER = re.compile(r"#?\s*size\s+count\s+type\b.*\bbusbw\b")
_DEVICE = re.compile(r"Rank\s+(\d+)\s.*? on\s+(\S+)\s+device\s+(\d+)\s+\[[^\]]*\]\s+(\S.*?)\s*$")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)(?=\s|$)")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)(?=\s|$)")
_NAME = re.compile(r"Collective test (?:starting|concluded): (\S+)|(\w+_perf)\b")
_ROW = re.compile(r"(?:^|[\s:>])(\d+\s+\d+\s+[a-z]\w*\s+\S.*)$")
_ERROR_COLUMNS = frozenset({"#wrong", "error"})
_JSON_ROW = re.compile(r'\{\s*"size"\s*:')
_DECODER = json.JSONDecoder()
ALONE = "each rank ran alone (several tables of one rank): nccl-tests was built without MPI, or PMI is wrong"


class NcclTestsParser:
    """Reads one source; a table lasts from its header to its average."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._rows: list[BusRow] = []
        self._devices: dict[int, str] = {}
        self._out_of_bounds: int | None = None
        self._name: str | None = None
        self._header: Line | None = None

    def quick(self, at: Place, out: Collector) -> int:
        """Reads nothing: tables are short."""
        return -1

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one candidate line."""
        text = without_ansi(line.text)
        if _JSON_ROW.search(text):
            self._json(line, out, text)
        elif found := _HEADER.search(text):
            self._close(out, None)
            self._columns = found[0].lstrip("# ").split() + text[found.end() :].split()
            self._header = line
        elif found := _AVERAGE.search(text):
            self._close(out, number(found[1]))
        elif found := _BOUNDS.search(text):
            self._out_of_bounds = int(found[1])
        elif found := _DEVICE.search(text):
            self._close(out, None)
            self._devices[int(found[1])] = found[4]
        elif self._columns and (found := _ROW.search(text)):
            self._row(line, out, found[1])
        elif found := _NAME.search(text):
            self._name = found[1] or found[2]

    def finish(self, out: Collector) -> None:
        """Closes a table whose average was never printed."""
        self._close(out, None)
        alone = [table for table in out.tables if len(table.devices) == 1]
        if len(alone) > 1 and all(list(table.devices) == [0] for table in alone):
            out.notes[ALONE] = None

    def _row(self, line: Line, out: Collector, text: str) -> None:
        cells = text.split()
        complete = len(cells) == len(self._columns) and line.ended
        row = _row_of(self._columns, cells) if complete else None
        if row is None:
            out.problem("table rows not understood", line)
            return
        self._rows.append(row)
        out.lines_used += 1

    def _close(self, out: Collector, average: float | None) -> None:
        if self._header is not None and (self._rows or average is not None):
            out.tables.append(
                BusTable(
                    collective=self._name,
                    rows=tuple(self._rows),
                    devices=dict(self._devices),
                    avg_busbw_gb_per_s=average,
                    out_of_bounds=self._out_of_bounds,
                    source=out.source,
                    line=self._header.line,
                )
            )
            self._name = None
            self._devices = {}
        self._columns, self._rows, self._header, self._out_of_bounds = [], [], None, None

    def _json(self, line: Line, out: Collector, text: str) -> None:
        rows: list[BusRow] = []
        for found in _JSON_ROW.finditer(text):
            try:
                record, _ = _DECODER.raw_decode(text, found.start())
            except (ValueError, RecursionError):
                out.problem("table rows not understood", line, text[found.start() :])
                continue
            row = _json_row(record)
            if row is None:
                out.problem("table rows not understood", line, text[found.start() :])
            else:
                rows.append(row)
        whole = _whole_json(text)
        out.lines_used += len(rows)
        out.tables.append(_json_table(rows, whole, out.source, line))


def _row_of(columns: Sequence[str], cells: Sequence[str]) -> BusRow | None:
    """Returns the row whose cells stand under the header's columns; the second half of them is in place."""
    times = [index for index, column in enumerate(columns) if column in {"time", "cputime"}]
    if not times:
        return None
    in_place = times[1] if len(times) > 1 else len(columns)
    out_of_place_cells = dict(zip(columns[:in_place], cells[:in_place], strict=True))
    in_place_cells = dict(zip(columns[in_place:], cells[in_place:], strict=True))
    first, second = _half(out_of_place_cells), _half(in_place_cells)
    size, count = (whole_number(out_of_place_cells.get(key, "")) for key in ("size", "count"))
    if size is None or count is None or first is None or second is None:
        return None
    root = out_of_place_cells.get("root", "")
    return BusRow(
        size_bytes=size,
        count=count,
        dtype=out_of_place_cells.get("type", ""),
        redop=out_of_place_cells.get("redop"),
        root=int(root) if re.fullmatch(r"-?\d{1,9}", root) else None,
        out_of_place_time_us=first[0],
        out_of_place_algbw_gb_per_s=first[1],
        out_of_place_busbw_gb_per_s=first[2],
        out_of_place_wrong=first[3],
        in_place_time_us=second[0],
        in_place_algbw_gb_per_s=second[1],
        in_place_busbw_gb_per_s=second[2],
        in_place_wrong=second[3],
    )


_Half = tuple[float | None, float | None, float | None, float | None]


def _half(cells: Mapping[str, str]) -> _Half | None:
    """Returns time, algbw, busbw and wrong values; None if a cell is neither a number nor `N/A`."""
    values: list[float | None] = []
    for names in (("time", "cputime"), ("algbw",), ("busbw",), tuple(_ERROR_COLUMNS)):
        text = next((cells[name] for name in names if name in cells), None)
        value = None if text is None or text == "N/A" else number(text)
        if text is not None and text != "N/A" and value is None:
            return None
        values.append(value)
    return positive(values[0]), values[1], values[2], values[3]


def _json_row(record: object) -> BusRow | None:
    if not isinstance(record, dict):
        return None
    size, count = record.get("size"), record.get("count")
    if not isinstance(size, int) or not isinstance(count, int):
        return None
    first, second = _json_half(record.get("out_of_place")), _json_half(record.get("in_place"))
    root = str(record.get("root", "")).strip()
    redop = record.get("redop")
    return BusRow(
        size_bytes=size,
        count=count,
        dtype=str(record.get("type", "")),
        redop=redop if isinstance(redop, str) else None,
        root=int(root) if re.fullmatch(r"-?\d{1,9}", root) else None,
        out_of_place_time_us=positive(first[0]),
        out_of_place_algbw_gb_per_s=first[1],
        out_of_place_busbw_gb_per_s=first[2],
        out_of_place_wrong=first[3],
        in_place_time_us=positive(second[0]),
        in_place_algbw_gb_per_s=second[1],
        in_place_busbw_gb_per_s=second[2],
        in_place_wrong=second[3],
    )


def _json_half(record: object) -> _Half:
    if not isinstance(record, dict):
        return None, None, None, None
    time = record.get("time", record.get("cpu_time"))
    cells = (time, record.get("alg_bw"), record.get("bus_bw"), record.get("nwrong"))
    values = [float(cell) if isinstance(cell, int | float) else None for cell in cells]
    return values[0], values[1], values[2], values[3]


def _whole_json(text: str) -> Mapping[str, object]:
    """Returns the document, or nothing if it was cut (nccl-tests closes it only at its end)."""
    try:
        document = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _json_table(rows: Sequence[BusRow], document: Mapping[str, object], source: str, line: Line) -> BusTable:
    args, config = document.get("args"), document.get("config")
    average, bounds = document.get("average_bus_bandwidth"), document.get("out_of_bounds")
    devices: dict[int, str] = {}
    listed = config.get("devices") if isinstance(config, dict) else None
    for device in listed if isinstance(listed, list) else []:
        if isinstance(device, dict) and isinstance(device.get("rank"), int):
            devices[device["rank"]] = str(device.get("device_info", ""))
    bandwidth = average.get("bandwidth") if isinstance(average, dict) else None
    count = bounds.get("count") if isinstance(bounds, dict) else None
    name = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None
    return BusTable(
        collective=name.rsplit("/", 1)[-1] if name else None,
        rows=tuple(rows),
        devices=devices,
        avg_busbw_gb_per_s=float(bandwidth) if isinstance(bandwidth, int | float) else None,
        out_of_bounds=count if isinstance(count, int) else None,
        source=source,
        line=line.line,
    )


def _recognise(text: str) -> bool:
    return _HEADER.search(text) is not None or (_JSON_ROW.search(text) is not None and '"bus_bw"' in text)


_TYPES = [
    "float",
    "half",
    "double",
    "bfloat16",
    "char",
    "int",
    "int8",
    "int32",
    "int64",
    "f8e4m3",
    "f8e5m2",
    "_e4m3",
    "_e5m2",
]

FORMAT = Format(
    name="nccl_tests",
    title="nccl-tests",
    signs=(b"busbw", b'"bus_bw"'),
    # Rows hold no word of their own, but each names its data type.
    markers=(
        *(b"busbw", b'"size"', b"Avg bus bandwidth", b"Out of bounds values", b" device ", b"_perf"),
        *(f"{name} ".encode() for name in _TYPES),
    ),
    recognise=_recognise,
    new_parser=NcclTestsParser,
    example="#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
)
