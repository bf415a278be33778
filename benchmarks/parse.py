"""How fast the log parser is, beside `grep -c` and beside a parser that looks at each line.

    python -m benchmarks.parse              # 1 GB, one step line in 200
    python -m benchmarks.parse --mb 200 --every 1000 --rounds 9

The contestants take turns, each in a process of its own, and the best round of each counts: on a shared
machine the other rounds measure the neighbours. Times are CPU times (user and system) of the reading alone,
and wall times beside them; peak resident memory is that of the whole process. Exit code 1: more than 100 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MARKER = "Training epoch "
MEMORY_LIMIT_MB = 100.0
_BATCH = 5000


@dataclass(frozen=True)
class Reading:
    """One round of one contestant: CPU and wall seconds, peak memory in MB, lines found."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    found: int


def noise_line(generator: random.Random, number: int) -> str:
    """Returns a line as rank logs are full of them."""
    rest = "x" * generator.randrange(120)
    kinds = (
        f"[NeMo I 2026-11-30 23:09:{number % 60:02d} nemo_logging:393] Rank {number % 8} has a group: [{rest}]",
        f"node{number % 256:03d}:12345:{number} [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/read {rest}",
        f"DEBUG {number % 60} data loader worker {number % 8} says nothing of interest {rest}",
    )
    return kinds[number % len(kinds)]


def step_line(generator: random.Random, step: int) -> str:
    """Returns a step line as NeMo 2 prints it."""
    return (
        f"{MARKER}0, iteration {step}/999999 | lr: 0.0003 | global_batch_size: 512 | global_step: {step} | "
        f"reduced_train_loss: {5 + generator.random():.4g} | train_step_timing in s: "
        f"{3.5 + 0.05 * generator.random():.4g} | consumed_samples: {512 * (step + 1)}"
    )


def write_log(path: Path, megabytes: int, every: int) -> int:
    """Writes a log with one step line in `every`; returns how many there are."""
    generator = random.Random(1)
    batch = [noise_line(generator, number) + "\n" for number in range(_BATCH)]
    size = steps = number = 0
    with path.open("w", encoding="ascii") as log:
        while size < megabytes * 1_000_000:
            number += 1
            if number % every == 0:
                line = step_line(generator, steps) + "\n"
                steps += 1
            else:
                line = batch[number % _BATCH]
            size += log.write(line)
    return steps


def parser(path: Path) -> int:
    """The project's parser: everything that a report needs."""
    from cloudai_run.metrics.parse import parse_files

    return len(parse_files([path]).steps)


def line_by_line(path: Path) -> int:
    """What most log parsers do: a regular expression on each line."""
    import re

    pattern = re.compile(r"global_step: (\d+) .*?train_step_timing in s: (\S+)")
    times: list[float] = []
    with path.open(encoding="utf-8", errors="replace") as log:
        for line in log:
            if match := pattern.search(line):
                times.append(float(match[2]))
    return len(times)


def line_by_line_with_in(path: Path) -> int:
    """The same with a cheap test before the regular expression."""
    import re

    pattern = re.compile(rb"global_step: (\d+) .*?train_step_timing in s: (\S+)")
    times: list[float] = []
    with path.open("rb") as log:
        for line in log:
            if b"train_step_timing" in line and (match := pattern.search(line)):
                times.append(float(match[2]))
    return len(times)


PYTHON: dict[str, Callable[[Path], int]] = {
    "cloudai-run": parser,
    "line by line, regex": line_by_line,
    "line by line, `in`": line_by_line_with_in,
}


def measure_here(name: str, path: Path) -> Reading:
    """Runs a Python contestant in this process."""
    PYTHON[name](Path("/dev/null")) if name != "cloudai-run" else __import__("cloudai_run.metrics.parse")
    wall, cpu = time.perf_counter(), time.process_time()
    found = PYTHON[name](path)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Reading(cpu, wall, peak_mb(), found)


def peak_mb() -> float:
    """Returns the peak resident memory of this program in MiB; getrusage would count what ran before its exec too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None, "Linux says VmHWM"
    return int(match[1]) / 1024


def measure_grep(path: Path) -> Reading:
    """Runs `grep -c` for the step marker; the start of its process is part of its time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.perf_counter()
    done = subprocess.run(["grep", "-c", MARKER, str(path)], capture_output=True, text=True, check=True)
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Reading(cpu, wall, 0.0, int(done.stdout))


def measure(name: str, path: Path) -> Reading:
    """Runs one round of a contestant in a process of its own."""
    if name == "grep -c":
        return measure_grep(path)
    command = [sys.executable, "-m", "benchmarks.parse", "--one", name, "--log", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Reading(**json.loads(done.stdout))


def compare(path: Path, rounds: int, steps: int) -> bool:
    """Prints the table; returns whether memory stayed within the limit and all found all steps."""
    names = ["grep -c", *PYTHON]
    readings: dict[str, list[Reading]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            readings[name].append(measure(name, path))
    size = path.stat().st_size / 1e6
    grep = min(reading.cpu_s for reading in readings["grep -c"])
    print(f"{size:.0f} MB, {steps} step lines, best of {rounds} interleaved rounds")
    print(f"{'':22}{'CPU s':>8}{'MB/s':>8}{'x grep -c':>11}{'wall s':>8}{'peak MB':>9}{'found':>9}")
    for name, runs in readings.items():
        cpu, wall = min(run.cpu_s for run in runs), min(run.wall_s for run in runs)
        peak = max(run.peak_mb for run in runs)
        memory = f"{peak:9.0f}" if peak else f"{'':9}"
        print(f"{name:22}{cpu:8.2f}{size / cpu:8.0f}{grep / cpu:11.2f}{wall:8.2f}{memory}{runs[0].found:9d}")
    ours = readings["cloudai-run"]
    return all(run.peak_mb < MEMORY_LIMIT_MB and run.found == steps for run in ours)


def main() -> int:
    """Returns the exit code."""
    options = argparse.ArgumentParser(description="log parser against grep -c and line-by-line parsers")
    options.add_argument("--mb", type=int, default=1000, help="size of the log")
    options.add_argument("--every", type=int, default=200, help="one step line in so many lines")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--folder", type=Path, help="where the log is written; default: a temporary folder")
    options.add_argument("--one", choices=sorted(PYTHON), help=argparse.SUPPRESS)
    options.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(vars(measure_here(given.one, given.log))))
        return 0
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "rank0.log"
        steps = write_log(path, given.mb, given.every)
        return 0 if compare(path, given.rounds, steps) else 1


if __name__ == "__main__":
    sys.exit(main())
