"""The runs that the report's tests look at, each written into a folder `run` of the current folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.metrics_report.folders import (
    add_stages,
    nemo_log,
    paxml_log,
    paxml_record,
    ranked_log,
    record,
    steps_of,
    write_folder,
)

FOLDER = Path("run")


def nemo() -> Path:
    """A valid run whose folder holds rank 0's lines twice, as srun's labelled file and by themselves."""
    log = nemo_log(steps_of(60))
    labelled = "".join(f"0: {line}\n" for line in log.splitlines())
    logs = {"train/attempt-0/node-0-node1.log": labelled, "train/attempt-0/rank-0.log": log}
    return write_folder(FOLDER, record(), logs, exit_codes={"train": 0})


def paxml() -> Path:
    """Two stages, the second of which is measured, on two ranks."""
    first, second = steps_of(20, 3.1), steps_of(20, 2.9)
    logs = {
        "profile/attempt-0/node-0-n1.log": paxml_log(first, label="0: "),
        "perf/attempt-0/node-0-n1.log": paxml_log(second, label="0: ", ranks=2),
        "perf/attempt-0/node-1-n2.log": paxml_log(
            [1.005 * seconds for seconds in second], label="1: ", rank=1, ranks=2
        ),
    }
    return write_folder(
        FOLDER, paxml_record(), logs, exit_codes={"profile": 0, "perf": 0}, nodes=("n1", "n2")
    )


def paxml_profile_failed() -> Path:
    """The first stage failed, so that the measured one never began."""
    logs = {"profile/attempt-0/node-0-n1.log": paxml_log(steps_of(8), label="0: ", ended=False)}
    return write_folder(FOLDER, paxml_record(), logs, exit_codes={"profile": 9})


def straggler() -> Path:
    """Two nodes of 8 ranks; rank 11 is slow."""
    logs = {
        f"train/attempt-0/node-{node}-node{node}.log": ranked_log(8, 40, slow=11, first_rank=8 * node)
        for node in range(2)
    }
    return write_folder(
        FOLDER, record(num_nodes=2, max_steps=40), logs, exit_codes={"train": 0}, nodes=("node0", "node1")
    )


def nan() -> Path:
    """The loss is no number from step 21 on."""
    log = nemo_log(steps_of(60), nan_from=21, label="0: ")
    return write_folder(FOLDER, record(), {"train/attempt-0/node-0-node1.log": log}, exit_codes={"train": 0})


def incomplete() -> Path:
    """Ended by the time limit after 30 of 60 steps: no end of the stage is recorded."""
    log = nemo_log(steps_of(30), label="0: ", ended=False, max_steps=60)
    log += "srun: error: node1: task 0: Terminated\n"
    log += (
        "slurmstepd: error: *** STEP 42.0 ON node1 CANCELLED AT 2026-12-01T00:10:00 DUE TO TIME LIMIT ***\n"
    )
    return write_folder(
        FOLDER, record(), {"train/attempt-0/node-0-node1.log": log}, exit_codes={"train": None}
    )


def failed() -> Path:
    """Ran out of memory after 3 steps."""
    log = nemo_log(steps_of(3), label="0: ", ended=False, max_steps=60)
    log += "0: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    return write_folder(FOLDER, record(), {"train/attempt-0/node-0-node1.log": log}, exit_codes={"train": 1})


def requeued() -> Path:
    """The first attempt failed after 20 steps; the second began anew and did all 60."""
    first = nemo_log(steps_of(20, 12.0), label="0: ", ended=False, max_steps=60)
    second = nemo_log(steps_of(60, 10.0), label="0: ")
    logs = {
        "train/attempt-0/node-0-node1.log": first,
        "train/attempt-1/node-0-node1.log": second,
    }
    folder = write_folder(FOLDER, record(), logs, exit_codes={"train": 137})
    add_stages(folder, {"train": 0}, attempt=1, nodes=("node2",))
    return folder


def smoke() -> Path:
    """A CPU smoke run of 5 steps on two processes."""
    run = record(
        smoke=True,
        num_gpus_per_node=2,
        gpu_model=None,
        precision="bf16",
        container_image=None,
        global_batch_size=2,
        seq_length=64,
        max_steps=5,
        overrides=("trainer.max_steps=5",),
        executor={"name": "local", "kind": "local"},
        resets=("trainer.strategy.tensor_model_parallel_size: 2 -> 1",),
    )
    log = nemo_log(steps_of(5, 0.03)).replace("| consumed", "| TFLOPS_per_GPU: 865.7 | consumed")
    return write_folder(FOLDER, run, {"train/attempt-0/rank-0.log": log}, exit_codes={"train": 0})


RUNS: Mapping[str, Callable[[], Path]] = {
    "nemo": nemo,
    "paxml": paxml,
    "paxml_profile_failed": paxml_profile_failed,
    "straggler": straggler,
    "nan": nan,
    "incomplete": incomplete,
    "failed": failed,
    "requeued": requeued,
    "smoke": smoke,
}

NCCL_LOG = """\
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid 1006102 on node1 device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 1006103 on node1 device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  8589934592    2147483648     float     sum      -1    62648  137.11  239.95      0    62648  137.11  239.95      0
 17179869184    4294967296     float     sum      -1    62648  274.23  479.90      0  62648.1  274.22  479.89      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 359.922
"""
