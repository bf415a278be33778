"""The record of a run: what was asked for, what would run, and where, as `run.json` in the run folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

RECORD_FILE = "run.json"
SCHEMA_VERSION = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class RunRecord:
    """One run as it was launched; written once, before the launch, and never changed.

    Attributes:
        run_id: NeMo-Run's experiment id, unique on this machine.
        name: the task's name inside the experiment.
        recipe: the recipe's name (`--factory`), or None for a foreign one.
        framework: `nemo`, `paxml` or `script`; decides which log parser is tried first.
        created_utc: ISO 8601, UTC.
        smoke: True for a CPU smoke run, whose numbers are no benchmark.
        overrides: the overrides as the user wrote them.
        command: the argv that each rank runs (of the measured stage).
        versions: package name to version, of the launching side.
        schema_versions: the versions against which the recipe was checked (`nemo_toolkit` ...).
        executor: kind, name and the fields that were set, without secrets' values.
        num_nodes, num_gpus_per_node: the layout; in a smoke run the number of processes a node.
        gpu_model: the GPU's name if known, else None.
        precision: `bf16`, `fp16`, `fp8`, `fp32` or None if unknown.
        model: the model's shape (see docs/metrics.md), or None if unknown.
        stages: name, framework and whether its step times are the run's result, in order.
        profiled_steps: stage to the first and last step that a profiler recorded; reports leave them out.
        resets: what a smoke run could not honour, one text each.
    """

    run_id: str
    name: str
    recipe: str | None
    framework: str
    created_utc: str
    smoke: bool
    num_nodes: int
    num_gpus_per_node: int
    task: str = "pretrain"
    overrides: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    schema_versions: Mapping[str, str] = field(default_factory=dict)
    executor: Mapping[str, Json] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    gpu_model: str | None = None
    precision: str | None = None
    container_image: str | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    seq_length: int | None = None
    max_steps: int | None = None
    model: Mapping[str, Json] | None = None
    stages: tuple[Mapping[str, Json], ...] = ()
    profiled_steps: Mapping[str, Json] | None = None
    xla_flags: Mapping[str, Json] | None = None
    resets: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """Returns the record as indented JSON with a final newline."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    def write(self, run_dir: Path) -> None:
        """Writes `run.json` into the run folder."""
        (run_dir / RECORD_FILE).write_text(self.to_json(), encoding="utf-8")
