"""A recording stand-in for nsys, which is not to be had here: leaves a report file and becomes the program."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_WITH_VALUE = ("-s", "-o", "--force-overwrite", "--stats")


def main() -> None:
    """`nsys profile OPTIONS PROGRAM ARGUMENTS`."""
    assert sys.argv[1] == "profile", sys.argv
    at = 2
    while sys.argv[at].startswith("-"):
        at += 2 if sys.argv[at] in _WITH_VALUE else 1
    options = sys.argv[2:at]
    report = options[options.index("-o") + 1].replace("%%", "%") + ".nsys-rep"
    entry = {"program": "nsys", "arguments": options, "env": {}, "rank": os.environ["SLURM_PROCID"]}
    with open(os.environ["FAKE_PROGRAM_LOG"], "ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")
    Path(report).write_text("report\n")
    os.execvp(sys.argv[at], sys.argv[at:])


if __name__ == "__main__":
    main()
