"""What an executor costs: one job of two stages on 64 nodes x 8 ranks, three ways, in turn, round after round.

- by hand: the best sbatch script that a person would write: the image loaded once a node, both stages in it, no MPI,
  the container removed;
- stock: NeMo-Run's run.SlurmExecutor, which has no stages: two tasks, the second depending on the first;
- cloudai-run: the same two stages by this project's executor.

It runs on the cluster of tests/slurm (one machine; pyxis is a stand-in, and an import there takes no time of its own
unless --import-ms says so), so that the ratios mean something and the seconds do not. Job time is what slurmctld's log
says, from the allocation to the end; client time is from making an Experiment to the last submission, imports of Python
modules not counted (for the script by hand: of sbatch).

    python benchmarks/slurm_overhead.py --rounds 9 --out slurm_overhead.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))

IMAGE = "bench#image:1"
STAGES = ("warm", "perf")
BY_HAND = """#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks}
#SBATCH --time=10
#SBATCH --output={folder}/slurm-%j.out
name=by_hand_$SLURM_JOB_ID
once="--nodes=$SLURM_NNODES --ntasks=$SLURM_NNODES --ntasks-per-node=1 --mpi=none"
all="--nodes=$SLURM_NNODES --ntasks=$((SLURM_NNODES * {tasks})) --ntasks-per-node={tasks} --mpi=none"
mounts={folder}:{folder}
srun $once --container-image={image} --container-name=$name --container-mounts=$mounts true || exit
srun $all --kill-on-bad-exit=1 --label --output={folder}/warm-%n.log --container-name=$name \\
  --container-mounts=$mounts true || exit
srun $all --kill-on-bad-exit=1 --label --output={folder}/perf-%n.log --container-name=$name \\
  --container-mounts=$mounts true || exit
srun $once --output=/dev/null bash -c 'enroot remove --force "pyxis_$0"' $name
"""


@dataclass(frozen=True)
class Sample:
    """One run of the job one way.

    Attributes:
        job_s: allocation to end, summed over the jobs it took.
        client_s: until the last job was submitted.
        sruns: steps that the jobs started.
        imports: container imports a node.
    """

    job_s: float
    client_s: float
    sruns: int
    imports: float


class Cluster:
    """The cluster of tests/slurm with as many nodes as asked for, in a state folder of its own."""

    def __init__(self, nodes: int, import_ms: int) -> None:
        self.nodes = nodes
        self.root = Path("/run/cloudai-run-bench")
        os.environ.update(
            CLOUDAI_RUN_LAB=str(self.root),
            CLOUDAI_RUN_LAB_PORT="18500",
            CLOUDAI_RUN_LAB_IMPORT_MS=str(import_ms),
            SLURM_CONF=str(self.root / "etc" / "slurm.conf"),
        )
        os.environ["PATH"] = f"{self.root / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def command(self, *words: str) -> None:
        """Runs `cluster.sh WORDS`."""
        subprocess.run([str(REPOSITORY / "tests/slurm/cluster.sh"), *words], check=True)

    def start(self) -> None:
        """Starts it, with the image that the job uses."""
        self.command("start", str(self.nodes))
        (self.root / "images" / re.sub(r"[^A-Za-z0-9._-]", "_", IMAGE)).mkdir(parents=True, exist_ok=True)

    def wait(self, job_ids: Sequence[str]) -> None:
        """Waits until jobs have ended.

        Raises:
            RuntimeError: one of them failed.
        """
        while subprocess.run(
            ["squeue", "-h", "-j", ",".join(job_ids)], capture_output=True, text=True, check=False
        ).stdout.strip():
            time.sleep(0.2)
        for job_id in job_ids:
            shown = subprocess.run(
                ["scontrol", "-o", "show", "job", job_id], capture_output=True, text=True, check=True
            ).stdout
            if "JobState=COMPLETED" not in shown:
                raise RuntimeError(f"job {job_id} failed: {shown}")

    def sample(self, job_ids: Sequence[str], client_s: float) -> Sample:
        """What the cluster's own records say of jobs that have ended."""
        log = (self.root / "log" / "slurmctld.log").read_text()
        containers = (self.root / "containers" / "log").read_text().splitlines()
        imports = [
            line for line in containers if line.split(".")[0] in job_ids and line.split()[2] == "import"
        ]
        return Sample(
            job_s=sum(self._job_s(log, job_id) for job_id in job_ids),
            client_s=client_s,
            sruns=self._steps(job_ids),
            imports=len(imports) / self.nodes,
        )

    def _job_s(self, log: str, job_id: str) -> float:
        times: list[datetime] = []
        for what in (
            rf"sched(?:/backfill)?: (?:_start_job: Started|Allocate) JobId={job_id} ",
            rf"_job_complete: JobId={job_id} done",
        ):
            match = re.search(rf"\[(\S+)\] (?:{what})", log)
            if match is None:
                raise RuntimeError(f"slurmctld's log does not tell of job {job_id}: {what}")
            times.append(datetime.fromisoformat(match[1]))
        return (times[1] - times[0]).total_seconds()

    def _steps(self, job_ids: Sequence[str]) -> int:
        """Steps by the accounting, which hears of the last one late."""
        words = ["sacct", "-n", "-P", "--format=JobID", "-j", ",".join(job_ids)]
        listed = ""
        for _ in range(50):
            listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            if all(f"{job_id}.batch" in listed for job_id in job_ids):
                break
            time.sleep(0.1)
        return sum(1 for line in listed.split() if re.search(r"\.\d+$", line))


def by_hand(cluster: Cluster, tasks: int, folder: Path) -> Sample:
    """The script by hand."""
    folder.mkdir(parents=True)
    script = folder / "by_hand.sh"
    script.write_text(BY_HAND.format(nodes=cluster.nodes, tasks=tasks, folder=folder, image=IMAGE))
    began = time.monotonic()
    job_id = subprocess.run(
        ["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=True
    ).stdout.strip()
    client_s = time.monotonic() - began
    cluster.wait([job_id])
    return cluster.sample([job_id], client_s)


def stock(cluster: Cluster, tasks: int, folder: Path) -> Sample:
    """NeMo-Run's own executor."""
    import nemo_run as run

    executor = run.SlurmExecutor(
        account="root",
        nodes=cluster.nodes,
        ntasks_per_node=tasks,
        time="10",
        container_image=IMAGE,
        packager=run.Packager(),
        poll_estimated_start_time=False,
    )
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()), _quiet(run, "stock") as experiment:
        for name in STAGES:
            experiment.add(run.Script(inline="true"), executor=executor.clone(), name=name)
        experiment.run(sequential=True, detach=True)
        client_s = time.monotonic() - began
    job_ids = [job.handle.rpartition("/")[2] for job in experiment.jobs]
    cluster.wait(job_ids)
    return cluster.sample(job_ids, client_s)


def ours(cluster: Cluster, tasks: int, folder: Path) -> Sample:
    """This project's executor."""
    import nemo_run as run

    from cloudai_run.executors.slurm import SlurmExecutor
    from tests.slurm.workloads import recipe

    executor = SlurmExecutor(nodes=cluster.nodes, ntasks_per_node=tasks, time="10", container_image=IMAGE)
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()), _quiet(run, "ours") as experiment:
        task = run.Partial(recipe, stages=[{"name": name, "argv": ["true"]} for name in STAGES])
        experiment.add(task, executor=executor, name="job")
        experiment.run(detach=True)
        client_s = time.monotonic() - began
    job_ids = [job.handle.rpartition("/")[2] for job in experiment.jobs]
    cluster.wait(job_ids)
    return cluster.sample(job_ids, client_s)


def _quiet(run, title: str):
    return run.Experiment(
        title, log_level="ERROR", clean_mode=True, enable_goodbye_message=False, skip_status_at_exit=True
    )


WAYS: dict[str, Callable[[Cluster, int, Path], Sample]] = {
    "by hand": by_hand,
    "stock": stock,
    "cloudai-run": ours,
}


def ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """The geometric mean of paired ratios with its 95 % interval (Student's t on their logarithms)."""
    from cloudai_run.metrics.student import t_quantile

    logs = [math.log(a / b) for a, b in zip(above, below, strict=True)]
    mean = statistics.fmean(logs)
    half = 0.0
    if len(logs) > 1:
        half = t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return {"ratio": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}


def summary(samples: dict[str, list[Sample]], nodes: int, tasks: int, import_ms: int) -> dict[str, object]:
    """The results as data."""
    ways = {
        way: {
            "job_s_median": statistics.median(one.job_s for one in got),
            "client_s_median": statistics.median(one.client_s for one in got),
            "sruns": sorted({one.sruns for one in got}),
            "imports_per_node": sorted({one.imports for one in got}),
            "job_s": [one.job_s for one in got],
            "client_s": [one.client_s for one in got],
        }
        for way, got in samples.items()
    }
    job = {way: [one.job_s for one in got] for way, got in samples.items()}
    client = {way: [one.client_s for one in got] for way, got in samples.items()}
    return {
        "schema_version": 1,
        "nodes": nodes,
        "ntasks_per_node": tasks,
        "import_ms": import_ms,
        "rounds": len(job["by hand"]),
        "ways": ways,
        "job_time": {
            "cloudai-run / by hand": ratio(job["cloudai-run"], job["by hand"]),
            "stock / by hand": ratio(job["stock"], job["by hand"]),
        },
        "client_time": {"cloudai-run / stock": ratio(client["cloudai-run"], client["stock"])},
    }


def table(result: dict) -> str:
    """The results for a person."""
    lines = [
        f"{result['nodes']} nodes x {result['ntasks_per_node']} ranks, {result['rounds']} rounds in turn, "
        f"an import takes {result['import_ms']} ms",
        f"{'':<12} {'job (s)':>8} {'client (s)':>11} {'sruns':>6} {'imports/node':>13}",
    ]
    for way, got in result["ways"].items():
        lines.append(
            f"{way:<12} {got['job_s_median']:8.2f} {got['client_s_median']:11.3f} "
            f"{'/'.join(map(str, got['sruns'])):>6} {'/'.join(f'{n:g}' for n in got['imports_per_node']):>13}"
        )
    for kind in ("job_time", "client_time"):
        for pair, got in result[kind].items():
            name = f"{kind} {pair}".replace("_", " ")
            lines.append(f"{name:<34} {got['ratio']:.3f} (95 % {got['low']:.3f} to {got['high']:.3f})")
    return "\n".join(lines)


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=8, help="ranks a node")
    parser.add_argument("--import-ms", type=int, default=0, help="what an import of the stand-in takes")
    parser.add_argument("--out", type=Path, help="writes the results as JSON")
    options = parser.parse_args()

    cluster = Cluster(options.nodes, options.import_ms)
    cluster.start()
    home = cluster.root / "work" / str(os.getpid())
    os.environ["NEMORUN_HOME"] = str(home / "home")
    samples: dict[str, list[Sample]] = {way: [] for way in WAYS}
    try:
        for index in range(options.rounds):
            # Another way goes first in each round: whatever drifts hits all alike.
            names = list(WAYS)[index % 3 :] + list(WAYS)[: index % 3]
            for way in names:
                samples[way].append(
                    WAYS[way](cluster, options.tasks, home / f"{way.replace(' ', '_')}-{index}")
                )
            said = ", ".join(f"{way} {samples[way][-1].job_s:.2f} s" for way in WAYS)
            print(f"round {index + 1}: {said}", file=sys.stderr, flush=True)
    finally:
        cluster.command("stop")
    result = summary(samples, options.nodes, options.tasks, options.import_ms)
    print(table(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
