"""Runs paxml.main as one rank of a job. Copied into the run folder: imports nothing of the project.

    python -u cloudai_run_rank.py --fdl_config=... --server_addr=HOST:job-ID --num_hosts=N --host_idx=R

The arguments are those of paxml.main. `:job-ID` becomes a port that follows from the job's id, so that two jobs on one
node do not meet. What a rank runs with goes to its log first: XLA says nothing about flags that it took.
"""

from __future__ import annotations

import os
import re
import runpy
import socket
import sys

# Below the ports that Linux hands out by itself (net.ipv4.ip_local_port_range begins at 32768).
FIRST_PORT, NUM_PORTS = 20000, 10000


def port_of(job_id: int) -> int:
    """Returns the port at which the ranks of a job meet."""
    return FIRST_PORT + job_id % NUM_PORTS


def with_port(argument: str) -> str:
    """Returns an argument with `:job-ID` at the end of the server's address turned into a port."""
    match = re.fullmatch(r"(--server_addr=.*:)job-(\d+)", argument)
    return f"{match[1]}{port_of(int(match[2]))}" if match else argument


def main(arguments: list[str]) -> None:
    """Becomes paxml.main with `arguments`."""
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [here, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    rank, ranks = os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_NTASKS", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    print(
        f"cloudai-run: rank {rank} of {ranks} on {socket.gethostname()}, XLA_FLAGS={flags}", file=sys.stderr
    )
    sys.argv = ["paxml.main", *map(with_port, arguments)]
    runpy.run_module("paxml.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
