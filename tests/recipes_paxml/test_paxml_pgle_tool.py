"""The program between the two stages: it must say what is missing, since XLA does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cloudai_run.recipes.paxml as package

TOOL = Path(package.__file__).parent / "cloudai_run_pgle.py"
GOOD = 'costs { name: "all-gather-start.1" cost_us: 9000.0 }\ncosts { name: "custom-call.2" cost_us: 1e3 }\n'


def run_tool(*args: object) -> subprocess.CompletedProcess[str]:
    # -I: the tool must need nothing but Python, in whatever container it runs.
    return subprocess.run(
        [sys.executable, "-I", str(TOOL), *map(str, args)], capture_output=True, text=True, check=False
    )


def failure(*args: object) -> str:
    done = run_tool(*args)
    assert done.returncode == 1
    return done.stderr.removeprefix("error: no PGLE profile for the perf stage: ").rstrip("\n")


def test_a_good_profile_passes(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_text(GOOD + 'latencies { source: "a" target: "b" latency_us: 3.0 }\n')
    done = run_tool("check", "--profile", profile)
    assert (done.returncode, done.stdout) == (0, f"{profile} has costs of 2 instructions\n")


def test_text_on_several_lines_parses(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_text('costs {\n  name: "fusion.1"\n  cost_us: 3\n}\n')
    assert run_tool("check", "--profile", profile).returncode == 0


def test_missing(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    assert failure("check", "--profile", profile) == f"{profile} is missing\n  no conversion was tried there"


def test_missing_after_a_conversion_shows_its_end(tmp_path: Path) -> None:
    (tmp_path / "convert.json").write_text('{"exit_code": 3}')
    (tmp_path / "convert.log").write_text("first\n\nlast words\n")
    profile = tmp_path / "profile.pbtxt"
    assert failure("check", "--profile", profile) == (
        f"{profile} is missing\n  the converter ended with exit code 3\n  | first\n  | last words"
    )


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty(tmp_path: Path, text: str) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_text(text)
    assert failure("check", "--profile", profile) == (
        f"{profile} is empty: nsys recorded no range with an hlo_op\n"
        "  was the GPU traced (cuda and nvtx), and did at least one step run while nsys recorded?"
    )


def test_garbage(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_text(GOOD + "<html>not found</html>\n")
    assert failure("check", "--profile", profile) == (
        f'{profile} is no profile\n  expected: costs {{ name: "..." cost_us: ... }}\n'
        "  found: '<html>not found</html>'"
    )


def test_no_text(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_bytes(b"\xff\xfe\x00costs")
    assert failure("check", "--profile", profile) == f"{profile} is no profile: it is no text"


def test_nothing_that_a_gpu_does(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_text('costs { name: "tuple.1" cost_us: 1.0 }\n')
    assert failure("check", "--profile", profile) == (
        f"{profile} names no collective and no fusion, only: tuple.1\n  it is not of a training step on GPUs"
    )


def test_a_folder_of_profiles(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert (
        failure("check", "--profile", tmp_path) == f"{tmp_path} is a folder without a profile (*.pbtxt, *.pb)"
    )
    (tmp_path / "a.pbtxt").write_text(GOOD)
    (tmp_path / "b.pb").write_bytes(b"\n\x12\n\x08fusion.7\x11\x00")
    assert run_tool("check", "--profile", tmp_path).stdout == f"{tmp_path} has costs of 3 instructions\n"


CONVERTER = """\
import argparse, pathlib, sys
parser = argparse.ArgumentParser()
for name in ("--profile_path", "--pgle_output_path"):
    parser.add_argument(name)
parser.add_argument("--post_process", action="store_true")
args = parser.parse_args()
print("converting", pathlib.Path(args.profile_path).read_text())
# As the real one does: everything beside its files goes.
for path in [*pathlib.Path().glob("*.csv"), *pathlib.Path().glob("*.sqlite")]:
    path.unlink()
"""
GOOD_END = f"pathlib.Path(args.pgle_output_path).write_text({GOOD!r})\n"


def convert(tmp_path: Path, end: str, capture: str = "whole", report: bool = True) -> tuple[object, ...]:
    converter = tmp_path / "converter.py"
    converter.write_text(CONVERTER + end)
    if report:
        (tmp_path / "x.nsys-rep").write_text("report")
    (tmp_path / "precious.csv").write_text("1,2")
    (tmp_path / "precious.sqlite").write_text("db")
    (tmp_path / "pgle").mkdir()
    (tmp_path / "pgle" / "also.csv").write_text("1,2")
    profile = ("--profile", tmp_path / "pgle" / "profile.pbtxt")
    return (
        "convert",
        "--report",
        tmp_path / "x.nsys-rep",
        *profile,
        "--converter",
        converter,
        "--capture",
        capture,
    )


def test_a_conversion_keeps_its_output_and_harms_nothing(tmp_path: Path) -> None:
    done = run_tool(*convert(tmp_path, GOOD_END))
    assert done.returncode == 0, done.stderr
    assert "converting report" in done.stdout
    assert (tmp_path / "pgle" / "profile.pbtxt").read_text() == GOOD
    assert (tmp_path / "pgle" / "convert.log").read_text() == "converting report\n"
    assert json.loads((tmp_path / "pgle" / "convert.json").read_text())["exit_code"] == 0
    assert {path.name for path in tmp_path.rglob("*.csv")} == {"precious.csv", "also.csv"}
    assert (tmp_path / "precious.sqlite").exists()


def test_a_second_conversion_starts_afresh(tmp_path: Path) -> None:
    args = convert(tmp_path, GOOD_END)
    assert run_tool(*args).returncode == 0
    assert run_tool(*args).returncode == 0


def test_a_failed_conversion_shows_its_end(tmp_path: Path) -> None:
    text = failure(*convert(tmp_path, "sys.exit('no table in the report')\n"))
    assert text == "the converter ended with exit code 1\n  | converting report\n  | no table in the report"
    assert json.loads((tmp_path / "pgle" / "convert.json").read_text())["exit_code"] == 1


def test_a_conversion_without_a_result(tmp_path: Path) -> None:
    assert failure(*convert(tmp_path, "")) == "the converter wrote no profile\n  | converting report"


def test_no_report_with_capture_by_the_program(tmp_path: Path) -> None:
    text = failure(*convert(tmp_path, GOOD_END, "api", report=False))
    assert text == (
        f"nsys wrote no report {tmp_path}/x.nsys-rep\n"
        "  nsys.capture=api records from cudaProfilerStart on: does the program call it? Upstream PAXML does not:\n"
        "  set nsys.capture=whole"
    )


def test_no_report_of_a_whole_program(tmp_path: Path) -> None:
    text = failure(*convert(tmp_path, GOOD_END, report=False))
    assert text == (
        f"nsys wrote no report {tmp_path}/x.nsys-rep\n  the log of the profile stage, rank 0, has what nsys said"
    )
