"""What this machine has: its GPUs and the versions of the packages that matter."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path

from cloudai_run.version import VERSION

# The packages whose versions a run's record names.
RECORDED_PACKAGES = ("nemo_run", "fiddle", "nemo_toolkit", "megatron-core", "lightning", "torch")


def gpu_count(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> int:
    """Returns how many NVIDIA GPUs a process started here would see; CUDA_VISIBLE_DEVICES narrows them."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    present = sum(bool(re.fullmatch(r"nvidia\d+", node.name)) for node in (root / "dev").glob("nvidia*"))
    if visible is None:
        return present
    return min(present, len([item for item in visible.split(",") if item.strip() not in ("", "-1")]))


def gpu_model(root: Path = Path("/")) -> str | None:
    """Returns the first GPU's model as the driver names it ("NVIDIA H100 80GB HBM3"), or None."""
    for information in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(.+?)\s*$", information.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match.group(1)
    return None


def versions() -> dict[str, str]:
    """Returns the versions of this project and of the recorded packages that are installed."""
    found = {"cloudai-run": VERSION}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def has_nemo() -> bool:
    """Returns whether NeMo can be imported here, without importing it."""
    return importlib.util.find_spec("nemo") is not None and importlib.util.find_spec("megatron") is not None
