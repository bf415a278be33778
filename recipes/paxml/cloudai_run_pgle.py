"""Makes a PGLE profile of an nsys report, and checks one. Copied into the run folder: needs only Python.

    python cloudai_run_pgle.py convert --report X.nsys-rep --profile Y.pbtxt --converter MODULE --capture whole
    python cloudai_run_pgle.py check --profile Y.pbtxt

XLA ends without an error when the profile that it was given is missing, empty or no profile: the run is then slow and
nobody knows why. So this ends with exit code 1 and says what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

COST = re.compile(r'costs\s*\{\s*name:\s*"((?:[^"\\]|\\.)*)"\s*cost_us:\s*([-+0-9.eE]+)\s*\}')
# Names of instructions of HLO, as XLA's compiler writes them.
WORK = re.compile(
    r"all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute|collective-broadcast|ragged|fusion"
)
LOG_TAIL_LINES = 15


class NoProfile(Exception):
    """There is no profile that XLA could use; the text says why."""


def convert(report: str, profile: str, converter: str, capture: str) -> None:
    """Converts a report, in a folder of its own: the converter deletes every *.csv and *.sqlite around it.

    Its output and exit code stay beside the profile, as convert.log and convert.json.

    Raises:
        NoProfile: if there is no report, or the converter failed.
    """
    if not os.path.isfile(report) or os.path.getsize(report) == 0:
        raise NoProfile(f"nsys wrote no report {report}\n{_why_no_report(capture)}")
    folder = os.path.dirname(profile)
    work = os.path.join(folder, "convert")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    os.symlink(report, os.path.join(work, "profile.nsys-rep"))
    program = [converter] if converter.endswith(".py") or "/" in converter else ["-m", converter]
    # Relative names: the converter hands its paths to a shell without quoting them.
    argv = [sys.executable, *program, "--profile_path", "./profile.nsys-rep", "--post_process"]
    argv += ["--pgle_output_path", "./profile.pbtxt"]
    done = subprocess.run(argv, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = done.stdout.decode("utf-8", "replace")
    with open(os.path.join(folder, "convert.log"), "w", encoding="utf-8") as file:
        file.write(output)
    with open(os.path.join(folder, "convert.json"), "w", encoding="utf-8") as file:
        json.dump({"argv": argv, "exit_code": done.returncode}, file)
    sys.stdout.write(output)
    made = os.path.join(work, "profile.pbtxt")
    if done.returncode != 0:
        raise NoProfile(f"the converter ended with exit code {done.returncode}\n{_tail(output)}")
    if not os.path.isfile(made):
        raise NoProfile(f"the converter wrote no profile\n{_tail(output)}")
    os.replace(made, profile)


def _why_no_report(capture: str) -> str:
    if capture == "api":
        return (
            "  nsys.capture=api records from cudaProfilerStart on: does the program call it? Upstream PAXML does not:\n"
            "  set nsys.capture=whole"
        )
    return "  the log of the profile stage, rank 0, has what nsys said"


def _tail(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()][-LOG_TAIL_LINES:]
    return "\n".join(f"  | {line}" for line in lines) or "  it printed nothing"


def names_in(data: bytes, path: str) -> list[str]:
    """Returns the names of the instructions that a profile has costs of, from its text or its binary form.

    Raises:
        NoProfile: if it has neither form.
    """
    if path.endswith(".pb"):
        return [name.decode("ascii") for name in re.findall(rb"[a-zA-Z][a-zA-Z0-9_.-]{3,}", data)]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise NoProfile(f"{path} is no profile: it is no text") from None
    names = [match[1] for match in COST.finditer(text)]
    rest = re.sub(r"latencies\s*\{[^{}]*\}", "", COST.sub("", text))
    if rest.strip():
        line = next(line for line in rest.splitlines() if line.strip())
        raise NoProfile(
            f'{path} is no profile\n  expected: costs {{ name: "..." cost_us: ... }}\n  found: {line.strip()[:80]!r}'
        )
    return names


def check(profile: str) -> int:
    """Returns how many instructions a profile, or the profiles in a folder, name.

    Raises:
        NoProfile: if it is missing or empty, does not parse, or names no collective and no fusion.
    """
    if not os.path.exists(profile):
        raise NoProfile(f"{profile} is missing\n{_last_conversion(profile)}")
    files = [profile]
    if os.path.isdir(profile):
        found = sorted(os.listdir(profile))
        files = [os.path.join(profile, name) for name in found if name.endswith((".pbtxt", ".pb"))]
        if not files:
            raise NoProfile(f"{profile} is a folder without a profile (*.pbtxt, *.pb)")
    names: list[str] = []
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        if not data.strip():
            raise NoProfile(
                f"{path} is empty: nsys recorded no range with an hlo_op\n"
                "  was the GPU traced (cuda and nvtx), and did at least one step run while nsys recorded?"
            )
        names += names_in(data, path)
    if not any(WORK.search(name) for name in names):
        raise NoProfile(
            f"{profile} names no collective and no fusion, only: {', '.join(names[:5]) or 'nothing'}\n"
            "  it is not of a training step on GPUs"
        )
    return len(names)


def _last_conversion(profile: str) -> str:
    """Returns what is known of the conversion that should have made a profile."""
    folder = os.path.dirname(profile)
    try:
        with open(os.path.join(folder, "convert.json"), encoding="utf-8") as file:
            code = json.load(file)["exit_code"]
        with open(os.path.join(folder, "convert.log"), encoding="utf-8") as file:
            return f"  the converter ended with exit code {code}\n{_tail(file.read())}"
    except (OSError, ValueError, KeyError):
        return "  no conversion was tried there"


def main(argv: Sequence[str]) -> int:
    """Runs one of the two commands; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("convert", "check"):
        command = commands.add_parser(name)
        command.add_argument("--profile", required=True)
        if name == "convert":
            command.add_argument("--report", required=True)
            command.add_argument("--converter", required=True)
            command.add_argument("--capture", required=True)
    args = parser.parse_args(argv)
    try:
        if args.command == "convert":
            convert(args.report, args.profile, args.converter, args.capture)
            print(f"converted {args.report} to {args.profile}")
        else:
            print(f"{args.profile} has costs of {check(args.profile)} instructions")
    except NoProfile as error:
        print(f"error: no PGLE profile for the perf stage: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
