"""Tables of nccl-tests, by header: the versions differ in their columns."""

from __future__ import annotations

import io
import json

import pytest

from cloudai_run.metrics.formats.nccl_tests import ALONE
from cloudai_run.metrics.parse import parse_stream
from cloudai_run.metrics.samples import BusTable, ParsedLog

DEVICES = """\
# Using devices
#  Rank  0 Group  0 Pid 1006102 on pool0-01806 device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 1006103 on pool0-01806 device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
"""
HEADER_13 = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
TABLE_13 = (
    "# Collective test starting: all_reduce_perf\n"
    + DEVICES
    + HEADER_13
    + """\
           8             2     float     sum      -1    34.27    0.00    0.00      0    32.87    0.00    0.00      0
  8589934592    2147483648     float     sum      -1    62648  137.11  239.95      0   1112.5  7721.0  480.10      0
 17179869184    4294967296     float     sum      -1  1.2e+05  274.23  479.90      0  62648.1  274.22  479.89      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 159.151
"""
)


def parse(text: str) -> ParsedLog:
    return parse_stream(io.BytesIO(text.encode()))


def only_table(text: str) -> BusTable:
    (table,) = parse(text).tables
    return table


def test_thirteen_columns() -> None:
    log = parse(TABLE_13)
    assert log.format == "nccl_tests"
    assert log.ended is True
    assert log.problems == ()
    (table,) = log.tables
    assert table.collective == "all_reduce_perf"
    assert table.devices == {0: "NVIDIA H100 80GB HBM3", 1: "NVIDIA H100 80GB HBM3"}
    assert table.avg_busbw_gb_per_s == 159.151
    assert table.out_of_bounds == 0
    assert [row.size_bytes for row in table.rows] == [8, 8589934592, 17179869184]
    last = table.rows[-1]
    assert (last.count, last.dtype, last.redop, last.root) == (4294967296, "float", "sum", -1)
    assert last.out_of_place_time_us == 120000
    assert (last.out_of_place_algbw_gb_per_s, last.out_of_place_busbw_gb_per_s) == (274.23, 479.9)
    assert (last.in_place_time_us, last.in_place_busbw_gb_per_s, last.in_place_wrong) == (62648.1, 479.89, 0)
    assert [row.out_of_place_time_us for row in table.rows[:2]] == [34.27, 62648]


@pytest.mark.parametrize(
    ("header", "row", "redop", "root", "wrong"),
    [
        (
            "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error",
            "  8  2  float  sum  34.27  0.01  0.02  2e-07  32.87  0.03  0.04  1e-07",
            "sum",
            None,
            2e-07,
        ),
        (
            "#  size  count  type  root  time  algbw  busbw  error  time  algbw  busbw  error",
            "  8  2  float  0  34.27  0.01  0.02  N/A  32.87  0.03  0.04  N/A",
            None,
            0,
            None,
        ),
        (
            "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
            "  8  2  float  none  -1  34.27  0.01  0.02  N/A  32.87  0.03  0.04  N/A",
            "none",
            -1,
            None,
        ),
        (
            "#  size  count  type  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
            "  8  2  float  34.27  0.01  0.02  0  32.87  0.03  0.04  0",
            None,
            None,
            0,
        ),
        (
            "  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
            "  8  2  bfloat16  sum  -1  34.27  0.01  0.02  3  32.87  0.03  0.04  0",
            "sum",
            -1,
            3,
        ),
        (
            "#  size  count  type  redop  root  cputime  algbw  busbw #wrong  i_min  i_max  i_p99  i_cv%"
            "  cputime  algbw  busbw #wrong  i_min  i_max  i_p99  i_cv%",
            "8 2 float sum -1 34.27 0.01 0.02 0 1.0 2.0 2.0 5.0 32.87 0.03 0.04 0 1.0 2.0 2.0 5.0",
            "sum",
            -1,
            0,
        ),
    ],
    ids=[
        "2.12 with redop",
        "2.12 with root",
        "none and N/A",
        "neither",
        "no hash",
        "per iteration, cpu time",
    ],
)
def test_other_headers(
    header: str, row: str, redop: str | None, root: int | None, wrong: float | None
) -> None:
    table = only_table(f"{header}\n{row}\n# Avg bus bandwidth    : 1.5\n")
    (found,) = table.rows
    assert (found.size_bytes, found.count, found.redop, found.root) == (8, 2, redop, root)
    assert found.out_of_place_time_us == 34.27
    assert (found.out_of_place_algbw_gb_per_s, found.out_of_place_busbw_gb_per_s) == (0.01, 0.02)
    assert found.out_of_place_wrong == wrong
    assert found.in_place_time_us == 32.87
    assert (found.in_place_algbw_gb_per_s, found.in_place_busbw_gb_per_s) == (0.03, 0.04)


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:"])
def test_labels(prefix: str) -> None:
    labelled = "".join(f"{prefix}{line}\n" for line in TABLE_13.splitlines())
    assert only_table(labelled).rows == only_table(TABLE_13).rows
    assert only_table(labelled).avg_busbw_gb_per_s == 159.151
    assert len(only_table(labelled).devices) == 2


def test_older_device_lines() -> None:
    text = "#   Rank  0 Pid  31842 on host-1 device  0 [0x07] Tesla V100-SXM2-32GB\n" + HEADER_13 + TABLE_13
    assert parse(text).tables[0].devices[0]


def test_several_collectives_in_one_file() -> None:
    other = TABLE_13.replace("all_reduce", "all_gather").replace("159.151", "52.9753")
    log = parse(TABLE_13 + other)
    assert [(table.collective, table.avg_busbw_gb_per_s) for table in log.tables] == [
        ("all_reduce_perf", 159.151),
        ("all_gather_perf", 52.9753),
    ]
    assert [len(table.rows) for table in log.tables] == [3, 3]


def test_rows_among_debug_lines() -> None:
    noise = "host-1:89444:89486 [1] NCCL INFO comm 0x55a7 rank 1 nranks 4 cudaDev 1 busId 200000 - Init COMPLETE\n"
    noisy = "".join(line + noise for line in TABLE_13.splitlines(keepends=True))
    assert only_table(noisy).rows == only_table(TABLE_13).rows
    assert parse(noisy).problems == ()


def test_a_row_that_is_no_row_is_dropped_and_counted() -> None:
    bad = TABLE_13.replace("239.95", "NaNbad").replace("34.27    0.00", "34.27")
    log = parse(bad)
    assert [row.size_bytes for row in log.tables[0].rows] == [17179869184]
    (problem,) = log.problems
    assert str(problem) == "2 table rows not understood, first at <stdin>:8"


def test_a_table_that_was_cut_has_no_average() -> None:
    cut = TABLE_13[: TABLE_13.index("# Out of bounds") - 40]
    log = parse(cut)
    assert len(log.tables[0].rows) == 2
    assert log.tables[0].avg_busbw_gb_per_s is None
    assert log.ended is False
    assert [problem.kind for problem in log.problems] == ["table rows not understood"]


def test_ranks_that_each_ran_alone() -> None:
    alone = TABLE_13.replace(DEVICES, "\n".join(DEVICES.splitlines()[:2]) + "\n")
    assert ALONE in parse(alone * 4).notes
    assert ALONE not in parse(TABLE_13 * 4).notes


JSON = {
    "version": 1,
    "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "8"],
    "nccl_version": 22703,
    "config": {"nthreads": 1, "devices": [{"rank": 0, "group": 0, "device_info": "NVIDIA H100 80GB HBM3"}]},
    "results": [
        {
            "size": 8,
            "count": 2,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": {"time": 34.27, "alg_bw": 0.01, "bus_bw": 0.02, "nwrong": None},
            "in_place": {"time": 32.87, "alg_bw": 0.03, "bus_bw": 0.04, "nwrong": 0.0},
            "actual_iterations": 20,
        },
        {
            "size": 16,
            "count": 4,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": None,
            "in_place": {"time": "nan", "alg_bw": 0.03, "bus_bw": 0.04, "nwrong": None},
        },
    ],
    "out_of_bounds": {"count": 0, "okay": "true"},
    "average_bus_bandwidth": {"bandwidth": 159.151, "okay": "unchecked"},
}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_json(separators: tuple[str, str]) -> None:
    table = only_table(json.dumps(JSON, separators=separators))
    assert table.collective == "all_reduce_perf"
    assert table.avg_busbw_gb_per_s == 159.151
    assert table.out_of_bounds == 0
    assert table.devices == {0: "NVIDIA H100 80GB HBM3"}
    first, second = table.rows
    assert (first.size_bytes, first.root, first.out_of_place_busbw_gb_per_s, first.in_place_wrong) == (
        8,
        -1,
        0.02,
        0,
    )
    assert first.out_of_place_wrong is None
    assert second.out_of_place_time_us is None
    assert second.in_place_time_us is None


def test_json_that_was_cut_keeps_its_whole_rows() -> None:
    text = json.dumps(JSON)
    table = only_table(text[: text.index('"size": 16') + 30])
    assert [row.size_bytes for row in table.rows] == [8]
    assert table.avg_busbw_gb_per_s is None
