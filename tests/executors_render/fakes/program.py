"""A program for stages: notes what it was given, and does what its arguments say.

One line of JSON in $FAKE_PROGRAM_LOG for each process: its name, arguments, environment and rank. Arguments it knows:
--print TEXT, --print-on RANK TEXT, --write PATH, --exit-on RANK CODE, --sleep SECONDS.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Runs once for a rank."""
    name, arguments, rank = Path(sys.argv[0]).name, sys.argv[1:], os.environ.get("SLURM_PROCID", "")
    # Python changes os.environ under some locales; this is what the process was started with.
    started = os.fsdecode(Path("/proc/self/environ").read_bytes()).split("\0")
    env = dict(item.split("=", 1) for item in started if "=" in item)
    entry = {"program": name, "arguments": arguments, "env": env, "rank": rank}
    with open(os.environ["FAKE_PROGRAM_LOG"], "ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")
    words = iter(arguments)
    for word in words:
        if word == "--print":
            print(next(words), flush=True)
        elif word == "--print-on" and (next(words), text := next(words))[0] == rank:
            print(text, flush=True)
        elif word == "--write":
            path = Path(next(words))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("made by the stage\n")
        elif word == "--exit-on" and (next(words), code := next(words))[0] == rank:
            sys.exit(int(code))
        elif word == "--sleep":
            time.sleep(float(next(words)))


if __name__ == "__main__":
    main()
