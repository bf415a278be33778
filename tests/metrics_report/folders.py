"""Run folders as a launch leaves them, with made-up numbers: record, configuration, stages, logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from cloudai_run.metrics.models import model_shape
from cloudai_run.record import RunRecord

RUN_ID = "llama3_8b_20261201T000000Z"
START_UNIX_S = 1_796_000_000.0
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=1\nsrun nemo llm pretrain --yes --factory llama3_8b\n"
CONFIG = {
    "_target_": "nemo.collections.llm.api.pretrain",
    "_partial_": True,
    "trainer": {"_target_": "nemo.lightning.pytorch.trainer.Trainer", "max_steps": 60},
}


_FULL_RUN = RunRecord(
    run_id=RUN_ID,
    name="llama3_8b",
    recipe="llama3_8b",
    framework="nemo",
    created_utc="2026-12-01T00:00:00+00:00",
    smoke=False,
    num_nodes=1,
    num_gpus_per_node=8,
    overrides=("trainer.max_steps=60",),
    command=("nemo", "llm", "pretrain", "--factory", "llama3_8b", "log.name='a b'"),
    versions={"cloudai-run": "0.1.0", "nemo_run": "0.11.1"},
    schema_versions={"nemo_toolkit": "2.7.3"},
    executor={"name": "slurm", "kind": "slurm", "nodes": 1, "partition": "batch"},
    env={"NCCL_DEBUG": "WARN"},
    gpu_model="NVIDIA H100 80GB HBM3",
    precision="fp8",
    container_image="nvcr.io/nvidia/nemo:25.04",
    global_batch_size=128,
    micro_batch_size=1,
    seq_length=8192,
    max_steps=60,
    model=model_shape("llama3_8b").to_mapping(),
    stages=({"name": "train", "framework": "nemo", "measured": True},),
)
PAXML_STAGES = (
    {"name": "profile", "framework": "paxml", "measured": False},
    {"name": "perf", "framework": "paxml", "measured": True},
)


def record(**changes: object) -> RunRecord:
    """A full llama3_8b run on one node of 8 H100."""
    return replace(_FULL_RUN, **changes)


def paxml_record(**changes: object) -> RunRecord:
    """A grok1 run in two stages; PAXML's experiments name no shape that the record has not."""
    values = {
        "run_id": "grok1_20261201T000000Z",
        "name": "grok1",
        "recipe": "grok1",
        "framework": "paxml",
        "num_nodes": 8,
        "global_batch_size": 16,
        "precision": "bf16",
        "max_steps": 20,
        "model": model_shape("grok1").to_mapping(),
        "command": ("python3", "-m", "paxml.main"),
        "overrides": (),
        "stages": PAXML_STAGES,
        "xla_flags": {"perf": {"xla_gpu_enable_latency_hiding_scheduler": True}},
    }
    return replace(_FULL_RUN, **{**values, **changes})


def write_folder(
    folder: Path,
    run: RunRecord,
    logs: Mapping[str, str],
    *,
    exit_codes: Mapping[str, int | None] | None = None,
    attempt: int = 0,
    nodes: Sequence[str] = ("node1",),
) -> Path:
    """Writes a run folder.

    Args:
        folder: to be made.
        run: its record.
        logs: path below `logs/` to text.
        exit_codes: stage to its exit code, None for a stage without an end; nothing writes no stages file.
        attempt: of every stage.
        nodes: of every stage.
    """
    folder.mkdir(parents=True)
    run.write(folder)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    (folder / "sbatch.sh").write_text(SCRIPT, encoding="utf-8")
    for name, text in logs.items():
        path = folder / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    add_stages(folder, exit_codes or {}, attempt=attempt, nodes=nodes)
    return folder


def add_stages(
    folder: Path, exit_codes: Mapping[str, int | None], *, attempt: int = 0, nodes: Sequence[str] = ("node1",)
) -> None:
    """Appends the events of one attempt, each stage 60 s long, to stages.jsonl."""
    start = START_UNIX_S + 1000 * attempt
    for stage, code in exit_codes.items():
        who = {"attempt": attempt, "stage": stage, "nodes": list(nodes), "job_id": "42"}
        events = [{**who, "event": "start", "time_unix_s": start}]
        if code is not None:
            events.append({**who, "event": "end", "time_unix_s": start + 60, "exit_code": code})
        with (folder / "stages.jsonl").open("a", encoding="utf-8") as stream:
            stream.writelines(f"{json.dumps(event)}\n" for event in events)
        start += 61


def steps_of(count: int, seconds: float = 10.0) -> list[float]:
    """Step times with a slow first step and a regular ripple."""
    ripple = (0.0, 0.004, -0.003, 0.002, -0.004, 0.001, 0.003, -0.002)
    return [4.5 * seconds, *(seconds * (1 + ripple[at % len(ripple)]) for at in range(1, count))]


def nemo_log(
    times: Sequence[float],
    *,
    ended: bool = True,
    max_steps: int | None = None,
    nan_from: int | None = None,
    label: str = "",
) -> str:
    """The lines that NeMo prints; `label` is what srun puts before them."""
    total = max_steps or len(times)
    lines = []
    for step, seconds in enumerate(times):
        loss = "nan" if nan_from is not None and step >= nan_from else f"{11.0 - 0.05 * step:.4g}"
        lines.append(
            f"{label}Training epoch 0, iteration {step}/{total - 1} | lr: 1e-05 | global_batch_size: 128 | "
            f"global_step: {step} | reduced_train_loss: {loss} | train_step_timing in s: {seconds:.6g} | "
            f"consumed_samples: {128 * (step + 1)}"
        )
    if ended:
        lines.append(f"{label}`Trainer.fit` stopped: `max_steps={total}` reached.")
    return "".join(f"{line}\n" for line in lines)


def paxml_log(
    times: Sequence[float], *, rank: int = 0, ranks: int = 1, ended: bool = True, label: str = ""
) -> str:
    """The lines that one PAXML process prints: at most 20 step times, no loss."""
    head = "I1201 00:00:{second:02d}.000000 1407{rank:04d} {source}] "

    def line(second: int, source: str, text: str) -> str:
        return f"{label}{head.format(second=second % 60, rank=rank, source=source)}{text}\n"

    lines = [line(0, "setup_jax.py:77", f"JAX process: {rank} / {ranks}")]
    lines.append(line(0, "executors.py:349", "[PAX STATUS]: Starting training loop."))
    for step, seconds in enumerate(times[:20]):
        if step < 5:
            lines.append(line(step, "executors.py:397", f"[PAX STATUS]: Beginning step `{step}`."))
        lines.append(line(step, "programs.py:380", f"[PAX STATUS]: train_step() took {seconds:.6f} seconds."))
    if ended:
        text = "[PAX STATUS]: E2E time: Elapsed time for <_main>: 59.00 seconds  (@ <.../paxml/main.py:494>)"
        lines.append(line(59, "py_utils.py:1043", text))
    return "".join(lines)


def ranked_log(ranks: int, count: int, *, slow: int, first_rank: int = 0) -> str:
    """A node's log, labelled by srun, of ranks of which one is slow."""
    times = steps_of(count, 2.0)
    texts = [
        nemo_log(
            [seconds * (1.09 if rank == slow else 1 + 0.0005 * rank) for seconds in times],
            label=f"{rank}: ",
        ).splitlines(keepends=True)
        for rank in range(first_rank, first_rank + ranks)
    ]
    return "".join(line for together in zip(*texts, strict=True) for line in together)
