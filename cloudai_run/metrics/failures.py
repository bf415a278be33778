"""Error texts that are known, and what a user can do about each."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """An error text that is known, what to do about it, and whether a run can go on after it."""

    pattern: re.Pattern[str]
    advice: str
    fatal: bool = True


def _known(pattern: str, advice: str, fatal: bool = True) -> KnownFailure:
    return KnownFailure(re.compile(pattern), advice, fatal)


# The first pattern that fits names the line; causes stand before consequences.
FAILURES: dict[str, KnownFailure] = {
    "xla_unknown_flag": _known(
        r"Unknown flags? in XLA_FLAGS|Unknown flag\(s\) in XLA_FLAGS",
        "The container's jaxlib does not know this flag: name the image's jaxlib version, or drop the flag.",
    ),
    "time_limit": _known(
        r"CANCELLED AT .* DUE TO TIME LIMIT",
        "Slurm's time limit ended the job: ask for more time or fewer steps.",
    ),
    "node_failure": _known(
        r"DUE TO NODE FAILURE|NODE_FAIL", "A node failed: run again, and exclude the node if it repeats."
    ),
    "cancelled": _known(r"\*\*\* (?:JOB|STEP) .* CANCELLED AT", "Somebody or a limit cancelled the job."),
    "cuda_out_of_memory": _known(
        r"CUDA out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY",
        "GPU memory was not enough: smaller micro batch, more model parallelism or activation recompute.",
    ),
    "out_of_host_memory": _known(
        r"oom[_-]kill|Out Of Memory|Cannot allocate memory",
        "Host memory was not enough: ask for more (--mem).",
    ),
    "no_cuda_device": _known(
        r"CUDA_ERROR_NO_DEVICE|no CUDA-capable device|No CUDA GPUs are available",
        "No GPU is visible to the process: check gres or gpus-per-node and CUDA_VISIBLE_DEVICES.",
    ),
    "disk_full": _known(
        r"No space left on device|Disk quota exceeded",
        "A disk is full: the run folder's, or the container cache's.",
    ),
    "nccl": _known(
        r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|ncclInvalidUsage"
        r"|NCCL operation .* failed|NCCL error|Watchdog caught collective operation timeout"
        r"|ncclGroupEnd\(\) failed",
        "A collective failed: run with NCCL_DEBUG=INFO and look at the first rank that stopped.",
    ),
    "heartbeat": _known(
        r"missing heartbeats|heartbeat timeout|Heartbeat monitor timed out",
        "A rank stopped answering: look for the first error of the rank that is named.",
    ),
    "literal_value": _known(
        r"Could not parse literal value",
        "A knob's value is no Python literal: strings need quotes of their own inside the argument.",
    ),
    "nan": _known(
        r"found NaN in local|[Ff]ound NaN|NaN or Inf found|loss is NaN|NanError",
        "NaN in loss or gradients: the numbers of this run are of no use.",
    ),
    "rank_failed": _known(
        r"srun: error: .*: tasks? .*: (?:Exited with exit code|Killed|Aborted|Segmentation fault|Terminated)",
        "A rank ended with an error: look at its log.",
    ),
    "crash": _known(
        r"Fatal Python error|Segmentation fault|Bus error", "The process crashed: look at the lines above it."
    ),
    "exception": _known(
        r"(?:^|\d: |\]: ?)(?:\w+\.)*\w*(?:Error|Exception): .",
        "A Python exception ended or disturbed the run.",
        fatal=False,
    ),
}

# A line with a known failure holds one of these.
FAILURE_MARKERS = (b"rror", b"XLA_FLAGS", b"_ERROR_", b"atchdog", b"ation fault", b"eartbeat", b"xception: ")


def failure_of(text: str) -> str | None:
    """Returns the name of the known failure that a line tells of, None if it tells of none."""
    return next((name for name, known in FAILURES.items() if known.pattern.search(text)), None)
