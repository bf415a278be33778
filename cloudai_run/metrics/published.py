"""Published throughputs to hold a run against, as data with source and convention.

A run is compared only with rows of the same model, GPUs, precision, global batch and sequence length; for
the nearest others it is said what does not match.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from cloudai_run.errors import UserError
from cloudai_run.metrics.flops import Convention, ModelShape
from cloudai_run.metrics.gates import Gate, GateResult, holds, refuse_unfit_runs
from cloudai_run.metrics.gpus import canonical_precision, find_gpu
from cloudai_run.metrics.models import model_shape
from cloudai_run.metrics.run_data import RunData, Side
from cloudai_run.metrics.throughput import RunShape, throughput

_DATA: Final = Path(__file__).parent / "data" / "published.json"
_NEAREST_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class PublishedSource:
    """A publication: its title, and where it stands (repository, file, commit)."""

    title: str
    location: str


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One published measurement; a number that the publisher did not print is None.

    Attributes:
        framework: "nemo", "megatron_bridge" or "paxml".
        model: A name of models.py.
        gpu: A name of gpus.py.
        scaling: How the 8-bit values were scaled, where the publisher says.
        parallel: Parallel sizes by short name (tp, pp, cp, vp, ep, fsdp), as far as published.
        tflops_per_gpu, mfu: In `convention`; None there means that the publisher counts in a way of its own
            (see `note`).
        vocab_size: Where the publisher counts another vocabulary than models.py.
        checked: Whether tokens/s and FLOPs of the row agree with our formula within 0.2 %.
        note: What a reader must know.
    """

    source: str
    framework: str
    model: str
    gpu: str
    num_gpus: int
    precision: str
    global_batch_size: int
    seq_length: int
    scaling: str | None = None
    micro_batch_size: int | None = None
    parallel: Mapping[str, int] = field(default_factory=dict)
    convention: Convention | None = None
    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    tflops_per_gpu: float | None = None
    mfu: float | None = None
    vocab_size: int | None = None
    checked: bool = False
    note: str | None = None

    @property
    def shape(self) -> ModelShape:
        """The model's shape as the publisher counts it."""
        shape = model_shape(self.model)
        return shape if self.vocab_size is None else replace(shape, vocab_size=self.vocab_size)

    @property
    def seconds(self) -> float:
        """The step time, from tokens/s where only that is published."""
        tokens = self.global_batch_size * self.seq_length
        if self.step_time_s is not None:
            return self.step_time_s
        if self.tokens_per_s_per_gpu is not None:
            return tokens / (self.tokens_per_s_per_gpu * self.num_gpus)
        if self.tokens_per_s is None:
            raise ValueError(f"a row of {self.source} has neither a step time nor tokens/s")
        return tokens / self.tokens_per_s

    def values(self) -> dict[str, float]:
        """Returns the row's metrics by name; throughputs follow from the step time where not printed."""
        run = RunShape(
            global_batch_size=self.global_batch_size, seq_length=self.seq_length, num_gpus=self.num_gpus
        )
        derived = throughput(self.seconds, run)
        found: dict[str, float] = {"step_time_s": self.seconds}
        for name in ("tokens_per_s_per_gpu", "tokens_per_s", "samples_per_s"):
            value = getattr(self, name)
            found[name] = getattr(derived, name) if value is None else value
        suffix = {"causal": "", "non_causal": "_non_causal"}
        for name in ("tflops_per_gpu", "mfu"):
            value = getattr(self, name)
            if value is not None and self.convention is not None:
                found[f"{name}{suffix[self.convention]}"] = value
        return found

    def title(self) -> str:
        """Returns the row in one line."""
        sizes = " ".join(f"{name}{size}" for name, size in self.parallel.items())
        batch = f"global batch {self.global_batch_size}, sequence {self.seq_length}"
        return f"{self.model} on {self.num_gpus} x {self.gpu}, {self.precision}, {batch}" + (
            f" ({self.framework}, {sizes})" if sizes else f" ({self.framework})"
        )


@dataclass(frozen=True, kw_only=True)
class PublishedMatch:
    """The rows that a run can be compared with, and the nearest of the others with what does not match."""

    run: RunData
    rows: tuple[PublishedRow, ...]
    nearest: tuple[tuple[PublishedRow, tuple[str, ...]], ...]


@lru_cache(maxsize=1)
def published_rows() -> tuple[PublishedRow, ...]:
    """Returns all rows that are shipped."""
    return tuple(PublishedRow(**row) for row in _data()["rows"])


@lru_cache(maxsize=1)
def published_sources() -> Mapping[str, PublishedSource]:
    """Returns the publications by the name that rows use."""
    return {name: PublishedSource(**source) for name, source in _data()["sources"].items()}


@lru_cache(maxsize=1)
def _data() -> dict[str, dict]:  # The file is ours; PublishedRow's signature checks its rows.
    return json.loads(_DATA.read_text(encoding="utf-8"))


def match_published(run: RunData) -> PublishedMatch:
    """Returns the published rows of the same model, GPUs, precision, batch and sequence as a run's.

    Raises:
        UserError: It is a smoke run, or the model's shape is not known.
    """
    refuse_unfit_runs([Side(name="A", runs=(run,))], "a comparison with published numbers")
    if run.shape.model is None:
        raise UserError(
            f"{run.label}: the model's shape is not known, so no published row can be found\n"
            "  name the model: --model llama3_8b"
        )
    model = run.shape.model
    judged = [(row, mismatches(row, run.shape)) for row in published_rows() if _same_model(row.shape, model)]
    exact = tuple(row for row, off in judged if not off)
    others = sorted(((row, off) for row, off in judged if off), key=lambda pair: len(pair[1]))
    return PublishedMatch(run=run, rows=exact, nearest=tuple(others[:_NEAREST_SHOWN]))


def _same_model(one: ModelShape, other: ModelShape) -> bool:
    """Whether two shapes are the same but for the name and the vocabulary, which tokenizers change."""
    return replace(one, name="", vocab_size=1) == replace(other, name="", vocab_size=1)


def mismatches(row: PublishedRow, run: RunShape) -> tuple[str, ...]:
    """Returns what keeps a run from being compared with a row, one text each ("64 GPUs, the run 8")."""
    gpu = find_gpu(run.gpu_model)
    pairs = (
        ("GPU", row.gpu, run.gpu_model if gpu is None else gpu.name),
        ("GPUs", row.num_gpus, run.num_gpus),
        ("precision", row.precision, canonical_precision(run.precision)),
        ("global batch", row.global_batch_size, run.global_batch_size),
        ("sequence", row.seq_length, run.seq_length),
    )
    return tuple(
        f"{name} {published} (the run: {'not known' if ours is None else ours})"
        for name, published, ours in pairs
        if published != ours
    )


@dataclass(frozen=True, kw_only=True)
class PublishedLine:
    """One metric of a run beside the published value; `change` is measured / published - 1."""

    metric: str
    published: float
    measured: float
    change: float


def published_lines(row: PublishedRow, side: Side) -> list[PublishedLine]:
    """Returns the metrics that both the row and the side have; FLOPs in the row's convention."""
    lines: list[PublishedLine] = []
    for name, published in row.values().items():
        measured = side.value(name)
        if measured is not None:
            change = measured / published - 1
            lines.append(PublishedLine(metric=name, published=published, measured=measured, change=change))
    return lines


def evaluate_published_gates(
    gates: Sequence[Gate], matches: Sequence[tuple[Side, PublishedMatch]]
) -> list[GateResult]:
    """Returns each gate's result on each side against each of its published rows.

    Raises:
        UserError: A side has no published row, or a row lacks the gate's metric.
    """
    results: list[GateResult] = []
    for side, match in matches:
        if not match.rows:
            raise UserError(
                f"no published row can be compared with {match.run.label}, so no gate can be decided"
            )
        results += [_gate(gate, side, row) for gate in gates for row in match.rows]
    return results


def _gate(gate: Gate, side: Side, row: PublishedRow) -> GateResult:
    line = next((line for line in published_lines(row, side) if line.metric == gate.metric), None)
    if line is None:
        raise UserError(
            f"--fail-if {gate.text}: {gate.metric} is not in both the run and the row of {row.source}\n"
            f"  in both: {', '.join(line.metric for line in published_lines(row, side))}"
        )
    invalid = [run for run in side.runs if run.status == "invalid"]
    if invalid:
        message = f"{invalid[0].label} is invalid: {'; '.join(invalid[0].reasons) or 'see its report'}"
        return GateResult(gate=gate.text, side=side.name, failed=True, message=message)
    seen = line.change if gate.relative else line.measured
    message = f"{line.measured:.6g}, {line.change:+.1%} of {line.published:g} ({row.source})"
    return GateResult(
        gate=gate.text, side=side.name, failed=holds(seen, gate.operator, gate.limit), message=message
    )
