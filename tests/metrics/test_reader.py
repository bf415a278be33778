"""Chunked reading: the result does not depend on where chunks end, and memory on how long the log is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import parse as benchmark
from cloudai_run.metrics.formats.base import Line
from cloudai_run.metrics.parse import parse_files, parse_stream
from cloudai_run.metrics.reader import chunks, lines_with

DATA = Path(__file__).parent / "data"
TEXT = b"".join(
    b"noise %d\n" % k if k % 3 else b"0: a MARK line %d and more of it\r\n" % k for k in range(200)
)


class Raw(io.RawIOBase):
    """Bytes as a raw stream that gives a few at a time."""

    def __init__(self, data: bytes, most: int = 1 << 20) -> None:
        self._data = io.BytesIO(data)
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._data.read(min(self._most, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def lines(data: bytes, size: int, most: int = 1 << 20) -> list[Line]:
    return [
        Line(line.text, line.offset, line.line, line.ended, b"")
        for chunk in chunks(Raw(data, most), size)
        for line in lines_with(chunk, (b"MARK", b"more"))
    ]


@pytest.mark.parametrize("size", [150, 199, 256, 1000, 4096])
@pytest.mark.parametrize("most", [7, 1 << 20])
def test_chunk_size_does_not_matter(size: int, most: int) -> None:
    whole = lines(TEXT, 1 << 20)
    assert len(whole) == 67
    assert whole[1] == Line("0: a MARK line 3 and more of it", TEXT.index(b"0: a MARK line 3"), 4, True, b"")
    assert lines(TEXT, size, most) == whole


def test_each_byte_of_a_real_log_may_be_a_chunks_end() -> None:
    data = (DATA / "nemo_tiny25_ck2.log").read_bytes()
    expected = lines(data.replace(b"Training", b"MARK"), 1 << 20)
    for size in range(600, 1200, 13):
        assert lines(data.replace(b"Training", b"MARK"), size) == expected


def test_a_line_longer_than_the_buffer_is_cut_and_not_trusted() -> None:
    data = b"MARK " + b"x" * 5000 + b"\nMARK 2\n"
    found = lines(data, 1000)
    assert [(line.text[:6], line.ended) for line in found] == [("MARK x", False), ("MARK 2", True)]


def test_the_last_line_without_an_end() -> None:
    (line,) = lines(b"noise\nMARK 1", 1 << 20)
    assert (line.text, line.ended, line.line) == ("MARK 1", False, 2)


def test_a_pipe_gives_what_the_file_gives(tmp_path: Path) -> None:
    path = DATA / "nemo_tiny25_long.log"
    of_file = parse_files([path])
    of_stream = parse_stream(io.BytesIO(path.read_bytes()), str(path))
    assert of_stream == of_file
    script = (
        "import sys; from cloudai_run.metrics.parse import parse_files; log = parse_files(['-']);"
        "print(len(log.steps), log.ended, log.sources)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=path.read_bytes(),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.decode().strip() == "60 True ('<stdin>',)"


def test_a_large_pipe_keeps_its_tail(tmp_path: Path) -> None:
    text = (DATA / "nemo_tiny25_long.log").read_text()
    noise = "noise that says nothing at all, only to be long\n" * 25_000
    head, end = text.split("`Trainer.fit`")
    data = (head + noise * 12 + "`Trainer.fit`" + end).encode()
    assert len(data) > 13 << 20
    path = tmp_path / "large.log"
    path.write_bytes(data)
    for log in (parse_stream(io.BytesIO(data)), parse_files([path])):
        assert len(log.steps) == 60
        assert log.ended is True
        assert log.bytes_read == len(data)
        assert (
            "errors, checkpoints and validations were looked for in the first 4 and the last 4 MB"
            in log.notes[0]
        )


def test_a_fifo_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cp", str(DATA / "nemo_tiny25_bf16.log"), str(fifo)]):
        assert len(parse_files([fifo]).steps) == 3


def test_memory_stays_bounded_and_all_steps_are_found(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    steps = benchmark.write_log(path, 120, 200)
    command = [sys.executable, "-m", "benchmarks.parse", "--one", "cloudai-run", "--log", str(path)]
    done = subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[2])
    reading = json.loads(done.stdout)
    assert reading["found"] == steps > 4000
    assert reading["peak_mb"] < benchmark.MEMORY_LIMIT_MB


def test_benchmark_prints_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rank0.log"
    steps = benchmark.write_log(path, 2, 200)
    assert benchmark.compare(path, 1, steps) is True
    lines = capsys.readouterr().out.splitlines()
    assert [line[:22].strip() for line in lines[2:]] == [
        "grep -c",
        "cloudai-run",
        "line by line, regex",
        "line by line, `in`",
    ]
    assert {line.split()[-1] for line in lines[2:]} == {str(steps)}
