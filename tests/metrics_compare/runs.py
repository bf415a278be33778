"""Runs to compare: in memory, as folders and as logs, with steps that are alike from one to the next."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import yaml

from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.models import model_shape
from cloudai_run.metrics.run_data import RunData
from cloudai_run.metrics.samples import Status
from cloudai_run.metrics.throughput import RunShape, throughput

SHAPE = RunShape(
    global_batch_size=128,
    seq_length=8192,
    num_gpus=8,
    model=model_shape("llama3_8b"),
    gpu_model="NVIDIA H100 80GB HBM3",
    precision="fp8",
)


def step_times(
    generator: random.Random,
    steps: int = 50,
    *,
    seconds: float = 10.0,
    offset: float = 0.0,
    noise: float = 0.01,
    autocorrelation: float = 0.5,
) -> list[float]:
    """AR(1) noise of relative deviation `noise` around `seconds` x e^offset."""
    innovation = noise * math.sqrt(1 - autocorrelation**2)
    level = generator.gauss(0, noise)
    times: list[float] = []
    for _ in range(steps):
        times.append(seconds * math.exp(offset + level))
        level = autocorrelation * level + generator.gauss(0, innovation)
    return times


def run_data(
    label: str,
    times: Sequence[float],
    *,
    shape: RunShape = SHAPE,
    smoke: bool = False,
    status: Status = "valid",
    reasons: tuple[str, ...] = (),
    facts: RunFacts | None = None,
    extra: Mapping[str, float] | None = None,
) -> RunData:
    """A run with the metrics that follow from its median step."""
    rate = throughput(median(times), shape)
    values = {
        "step_time_s": median(times),
        "tokens_per_s_per_gpu": rate.tokens_per_s_per_gpu,
        "tokens_per_s": rate.tokens_per_s,
        "tflops_per_gpu": rate.tflops_per_gpu["causal"],
        "mfu": rate.mfu["causal"],
        **(extra or {}),
    }
    return RunData(
        label=label,
        smoke=smoke,
        status=status,
        reasons=reasons,
        step_time_s=tuple(times),
        values={name: value for name, value in values.items() if value is not None},
        missing=rate.missing,
        shape=shape,
        facts=facts or RunFacts(record={}),
    )


def config_tree(**changes: object) -> dict[str, object]:
    """A small configuration in the encoding of config.yaml."""
    trainer: dict[str, object] = {
        "_target_": "nemo.lightning.pytorch.trainer.Trainer",
        "max_steps": 60,
        "devices": 8,
        "callbacks": [{"_target_": "nemo.utils.exp_manager.TimingCallback"}],
    }
    trainer.update({name: value for name, value in changes.items() if name in ("max_steps", "callbacks")})
    return {
        "_target_": "nemo.collections.llm.api.pretrain",
        "_partial_": True,
        "model": {
            "_target_": "nemo.collections.llm.gpt.model.llama.LlamaModel",
            "config": {
                "_target_": "nemo.collections.llm.gpt.model.llama.Llama3Config8B",
                "num_layers": changes.get("num_layers", 32),
            },
        },
        "trainer": trainer,
        "workload": {"_target_": "Workload", "env": changes.get("env", {"NCCL_DEBUG": "WARN"})},
    }


def record(**changes: object) -> dict[str, object]:
    """A run.json."""
    shape = model_shape("llama3_8b").to_mapping()
    base: dict[str, object] = {
        "schema_version": 1,
        "run_id": "llama3_8b_1733000000",
        "name": "pretrain",
        "recipe": "llama3_8b",
        "framework": "nemo",
        "task": "pretrain",
        "created_utc": "2026-12-01T00:00:00Z",
        "smoke": False,
        "overrides": [],
        "command": ["nemo", "llm", "pretrain"],
        "versions": {"nemo_run": "0.11.1"},
        "executor": {"name": "slurm", "kind": "slurm", "nodes": 1, "partition": "batch"},
        "env": {"NCCL_DEBUG": "WARN"},
        "num_nodes": 1,
        "num_gpus_per_node": 8,
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "precision": "fp8",
        "container_image": "nvcr.io/nvidia/nemo:25.04",
        "global_batch_size": 128,
        "micro_batch_size": 1,
        "seq_length": 8192,
        "max_steps": 60,
        "model": shape,
        "stages": [{"name": "train", "framework": "nemo", "measured": True}],
        "xla_flags": None,
    }
    return {**base, **changes}


def write_run(
    folder: Path,
    times: Sequence[float],
    *,
    run_record: Mapping[str, object],
    config: Mapping[str, object] | None = None,
    nodes: Sequence[str] = ("node1",),
) -> Path:
    """Writes a run folder with one measured stage whose log is NeMo's."""
    logs = folder / "logs" / "train"
    logs.mkdir(parents=True)
    (logs / "rank0.out").write_text(nemo_log(times), encoding="utf-8")
    (folder / "run.json").write_text(json.dumps(run_record), encoding="utf-8")
    if config is not None:
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    events = [
        {"attempt": 0, "stage": "train", "event": "start", "time_unix_s": 1.0, "nodes": list(nodes)},
        {"attempt": 0, "stage": "train", "event": "end", "time_unix_s": 2.0, "exit_code": 0},
    ]
    text = "".join(f"{json.dumps(event)}\n" for event in events)
    (folder / "stages.jsonl").write_text(text, encoding="utf-8")
    return folder


def nemo_log(times: Sequence[float]) -> str:
    """The lines that NeMo's progress printer would write."""
    last = len(times) - 1
    lines = [
        f"Training epoch 0, iteration {step}/{last} | lr: 1e-05 | global_batch_size: 128 | global_step: {step} | "
        f"reduced_train_loss: {11.0 - step * 0.05:.4g} | train_step_timing in s: {seconds:.6g} | "
        f"consumed_samples: {128 * (step + 1)}"
        for step, seconds in enumerate(times)
    ]
    return "\n".join([*lines, f"`Trainer.fit` stopped: `max_steps={len(times)}` reached."]) + "\n"
