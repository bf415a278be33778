"""A recording stand-in for srun: runs the command for each rank with Slurm's variables, and labels the output.

Written against srun(1) and what was seen on Slurm 22.05. Each call is a line of JSON in $FAKE_SRUN_LOG. What it
takes from pyxis: an image's own environment ($FAKE_IMAGE_ENV, JSON) wins unless --container-env names the variable,
and a name without an image needs an earlier srun that loaded it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def parse(argv: list[str]) -> tuple[dict[str, str | None], list[str]]:
    """Splits srun's long options from the command; a lone colon would begin a second job."""
    if ":" in argv:
        raise SystemExit("srun: error: Allocation failure: already allocated to previous components.")
    options: dict[str, str | None] = {}
    for at, word in enumerate(argv):
        if not word.startswith("--"):
            return options, argv[at:]
        name, has_value, value = word[2:].partition("=")
        assert name not in options, f"--{name} twice"
        options[name] = value if has_value else None
    raise SystemExit("srun: fatal: No command given to execute.")


def containers(options: dict[str, str | None], log: Path) -> None:
    """Refuses a name that no earlier srun of this job has loaded."""
    name = options.get("container-name")
    earlier = [json.loads(line)["options"] for line in log.read_text().splitlines()] if log.exists() else []
    loaded = {
        call["container-name"] for call in earlier if "container-image" in call and "container-name" in call
    }
    if name is not None and "container-image" not in options and name not in loaded:
        print(f'slurmstepd: error: pyxis: a container with name "{name}" does not exist', file=sys.stderr)
        print("srun: error: node1: task 0: Exited with exit code 1", file=sys.stderr)
        raise SystemExit(1)


def rank_env(options: dict[str, str | None], rank: int, a_node: int) -> dict[str, str]:
    """Returns the environment of a rank: what srun was given, then what Slurm and the image set."""
    env = dict(os.environ)
    tasks, nodes = options["ntasks"] or "", options["nodes"] or ""
    env |= {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % a_node),
        "SLURM_NODEID": str(rank // a_node),
        "SLURM_NTASKS": tasks,
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURMD_NODENAME": f"node{rank // a_node + 1}",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    }
    if any(name.startswith("container-") for name in options):
        kept = (options.get("container-env") or "").split(",")
        image = json.loads(os.environ.get("FAKE_IMAGE_ENV", "{}"))
        env |= {name: value for name, value in image.items() if name not in kept}
    return env


def output_of(options: dict[str, str | None], node: int) -> str:
    """Returns the path of a node's output."""
    pattern = options.get("output") or "/dev/stdout"
    return (
        pattern.replace("%%", "\0")
        .replace("%n", str(node))
        .replace("%N", f"node{node + 1}")
        .replace("\0", "%")
    )


def copy_labelled(process: subprocess.Popen[bytes], rank: int, path: str, lock: threading.Lock) -> None:
    """Copies a rank's output line by line, labelled as with --label."""
    assert process.stdout is not None
    for line in process.stdout:
        with lock, open(path, "ab") as file:
            file.write(b"%d: " % rank + line)


def main() -> int:
    """Runs one step."""
    options, command = parse(sys.argv[1:])
    log = Path(os.environ["FAKE_SRUN_LOG"])
    containers(options, log)
    with log.open("a") as file:
        file.write(json.dumps({"options": options, "command": command}) + "\n")
    tasks, a_node = int(options["ntasks"] or 0), int(options["ntasks-per-node"] or 0)
    assert tasks == int(options["nodes"] or 0) * a_node, options
    lock, processes, threads = threading.Lock(), [], []
    for rank in range(tasks):
        path = output_of(options, rank // a_node)
        Path(path).touch()
        process = subprocess.Popen(
            command, env=rank_env(options, rank, a_node), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        processes.append(process)
        threads.append(threading.Thread(target=copy_labelled, args=(process, rank, path, lock)))
        threads[-1].start()
    signal.signal(signal.SIGTERM, lambda *_: [process.kill() for process in processes] and None)
    code = wait(processes, a_node, kill=options.get("kill-on-bad-exit") == "1")
    for thread in threads:
        thread.join()
    return code


def wait(processes: list[subprocess.Popen[bytes]], a_node: int, *, kill: bool) -> int:
    """Waits for the ranks; the first that fails ends the others, whose codes count too, as with srun."""
    running, worst = dict(enumerate(processes)), 0
    while running:
        for rank, process in list(running.items()):
            try:
                code = process.wait(timeout=0.01)
            except subprocess.TimeoutExpired:
                continue
            del running[rank]
            worst = max(worst, code if code >= 0 else 128 - code)
            if code != 0:
                what = f"Exited with exit code {code}" if code > 0 else signal.strsignal(-code)
                print(
                    f"srun: error: node{rank // a_node + 1}: task {rank}: {what}", file=sys.stderr, flush=True
                )
                for other in running.values() if kill else ():
                    other.terminate()
    return worst


if __name__ == "__main__":
    sys.exit(main())
