"""What the parsers and the statistics hand on: frozen records, every quantity with its unit in its name.

A value that the log does not hold is None, never 0 or -1. A NaN or an infinity that the log does hold stays
a float NaN or infinity (a NaN loss is a finding, not a gap).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FormatName = Literal[
    "nemo2", "nemo2_dllogger", "nemo1", "megatron_lm", "megatron_bridge", "paxml", "maxtext", "nccl_tests"
]
Status = Literal["valid", "invalid", "incomplete"]


@dataclass(frozen=True)
class Step:
    """One optimizer step as one rank printed it.

    Without slots, so that an instance holds only what its line held; see `of`.

    Attributes:
        step: the format's own number: global_step (NeMo, from 0), iteration (Megatron, from 1), completed
            step (MaxText, from 0). PAXML prints none: there it is the line's ordinal in its process, from 0.
        step_time_s: seconds of one step (Megatron: the mean over `covers_steps` steps).
        covers_steps: how many steps the line stands for (Megatron's log interval), at least 1.
        global_batch_size: sequences a step over all GPUs.
        consumed_samples: sequences since the start of the training, this step included.
        tokens_per_s_per_gpu: the framework's own figure.
        framework_tflops_per_gpu: the framework's own model TFLOP/s for each GPU.
        memory_reserved_bytes: peak reserved by the allocator on the printing rank.
        memory_allocated_bytes: peak allocated on the printing rank.
        nan_iterations: iterations with NaN among the covered ones (Megatron).
        skipped_iterations: iterations skipped among the covered ones, e.g. by loss scaling (Megatron).
        rank: global rank that printed the line, from a label or a file's name.
        node: node (or torchx replica `role/0`) that printed it, where the log says so.
        attempt: 0 for the first start of the process, 1 after its first restart, and so on.
        source: name of the file (`<stdin>` for standard input).
        offset: byte offset of the line within the source.
        line: 1-based line number within the source, None far inside a large file (the offset still stands).
    """

    step: int
    step_time_s: float | None = None
    loss: float | None = None
    val_loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None
    covers_steps: int = 1
    global_batch_size: int | None = None
    consumed_samples: int | None = None
    tokens_per_s_per_gpu: float | None = None
    framework_tflops_per_gpu: float | None = None
    memory_reserved_bytes: float | None = None
    memory_allocated_bytes: float | None = None
    nan_iterations: int | None = None
    skipped_iterations: int | None = None
    rank: int | None = None
    node: str | None = None
    attempt: int = 0
    source: str = ""
    offset: int = 0
    line: int | None = None

    @classmethod
    def of(cls, fields: dict[str, float | int | str | None]) -> Step:
        """Returns the step with these fields, which are not checked, and defaults for all others.

        A frozen dataclass's own `__init__` sets each of its fields by a call, which is more than half of the
        time that reading a line takes; the defaults of the others are the class's attributes. The dictionary
        becomes the step's own.
        """
        step = cls.__new__(cls)
        object.__setattr__(step, "__dict__", fields)
        return step


@dataclass(frozen=True, slots=True)
class Problem:
    """Lines of one kind that were not used, or used in part, and where the first one stands.

    Attributes:
        kind: short text that completes "N ...", e.g. "lines not understood".
        count: how many, at least 1.
        source: file of the first one.
        line: its 1-based line number, None if it was not counted (standard input far from its start).
        example: the first one's text, at most 200 characters.
    """

    kind: str
    count: int
    source: str
    line: int | None
    example: str

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{self.count} {self.kind}, first at {where}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A known error text found in a log, with what to do about it.

    Attributes:
        kind: stable name: "xla_unknown_flag", "cuda_out_of_memory", "nccl", "no_cuda_device", "time_limit",
            "rank_failed", "out_of_host_memory", "heartbeat", "disk_full", "crash", "nan", "traceback" ...
        message: the log's own line, at most 300 characters.
        advice: one sentence for the user.
        fatal: False for what a run survives or what only follows from another failure.
    """

    kind: str
    message: str
    advice: str
    source: str
    line: int | None
    rank: int | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class RankLog:
    """What one rank's log held.

    Attributes:
        steps: number of steps kept.
        ended: the format's end marker was seen in this rank's log.
        sources: the files it came from.
    """

    rank: int | None
    node: str | None
    steps: int
    ended: bool
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BusRow:
    """One row of an nccl-tests table, out of place and in place.

    Times in microseconds, bandwidths in GB/s as nccl-tests counts them (1e9 bytes). `wrong` is the number of
    wrong values (None where the check was off, `N/A`), or the largest error in tables before 2.13.
    """

    size_bytes: int
    count: int
    dtype: str
    redop: str | None = None
    root: int | None = None
    out_of_place_time_us: float | None = None
    out_of_place_algbw_gb_per_s: float | None = None
    out_of_place_busbw_gb_per_s: float | None = None
    out_of_place_wrong: float | None = None
    in_place_time_us: float | None = None
    in_place_algbw_gb_per_s: float | None = None
    in_place_busbw_gb_per_s: float | None = None
    in_place_wrong: float | None = None


@dataclass(frozen=True, slots=True)
class BusTable:
    """One collective of an nccl-tests log.

    Attributes:
        collective: "all_reduce_perf" and the like where the log names it.
        devices: the device lines' texts by rank ("NVIDIA H100 80GB HBM3").
        avg_busbw_gb_per_s: the log's own "Avg bus bandwidth", None if it was not printed.
        out_of_bounds: the log's own "Out of bounds values" (0 is OK), None if it was not printed.
    """

    collective: str | None
    rows: tuple[BusRow, ...]
    devices: Mapping[int, str]
    avg_busbw_gb_per_s: float | None
    out_of_bounds: int | None
    source: str
    line: int | None


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """Everything that was read from the logs of one stage.

    Attributes:
        format: which parser read it; None where no step line of any format was found, only known failures.
        stage: name of the stage, None for logs that were given as files.
        steps: the steps that stand (the last attempt wins), sorted by rank, then step.
        ranks: one entry for each rank that printed a step or was named by a file or label.
        tables: nccl-tests results; empty for training logs.
        ended: the format's end marker was seen (on every rank, for formats where each rank prints it), or the
            last step of all was; None if the format has no end marker and the number of steps is unknown.
        max_steps: number of steps the log says it was to do; None if it does not say.
        restarts: how often a process started again (steps repeated).
        superseded: how many step lines a later attempt replaced.
        checkpoint_steps: numbers of the steps right after which a checkpoint was written.
        validation_steps: numbers of the steps right after which a validation ran.
        profiled_steps: first and last step that the log says were profiled, None if it does not say.
        failures: known error texts, in the order of the log.
        problems: what was not understood or dropped, by kind.
        notes: one sentence each on what a reader must know ("step numbers are ordinals: ...").
        bytes_read: size of the sources.
        lines_used: how many lines gave a step or a table row.
    """

    format: FormatName | None
    stage: str | None
    sources: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    ranks: tuple[RankLog, ...] = ()
    tables: tuple[BusTable, ...] = ()
    ended: bool | None = False
    max_steps: int | None = None
    restarts: int = 0
    superseded: int = 0
    checkpoint_steps: frozenset[int] = frozenset()
    validation_steps: frozenset[int] = frozenset()
    profiled_steps: tuple[int, int] | None = None
    failures: tuple[Failure, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    bytes_read: int = 0
    lines_used: int = 0


@dataclass(frozen=True, slots=True)
class Excluded:
    """A step outside the steady window, and why."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Window:
    """The steps that the statistics rest on.

    Attributes:
        rule: the rule in words, for the report.
        steps: the job's step series inside the window: one Step a step number; with several ranks its
            step_time_s is the median over the ranks that printed it.
        all_steps: the whole series, warm-up included, in order.
        excluded: each step of the series that is outside, with its reason.
        first_step, last_step: first and last number inside, None if the window is empty.
        note: what a reader must know (few samples, unknown profile range ...), None if nothing.
    """

    rule: str
    steps: tuple[Step, ...]
    all_steps: tuple[Step, ...]
    excluded: tuple[Excluded, ...]
    first_step: int | None
    last_step: int | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    """Drift over the run: Theil-Sen slope and Mann-Kendall test (variance corrected for autocorrelation).

    Attributes:
        slope_per_step: change of the value with each step, in the value's unit.
        relative_change: slope times the window's length over the median (0.02: 2 % slower at the end).
        p_value: two-sided.
        significant: p_value below 0.01 and an absolute relative_change of at least 1 %.
    """

    slope_per_step: float
    relative_change: float
    p_value: float
    significant: bool


@dataclass(frozen=True, slots=True)
class Outlier:
    """A value far from the median: |value - median| / (1.4826 * MAD) = score, above 5."""

    step: int
    value: float
    score: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """A series in numbers; all in the series' own unit but cv (a ratio).

    Attributes:
        std: sample standard deviation (n - 1), None for one value.
        p5, p95: percentiles, linear between the closest ranks.
        cv: std / mean, None where std is.
        median_low, median_high: bootstrap interval of the median at `confidence` (moving blocks, since steps
            are autocorrelated), None where there are fewer than 3 values.
        block_length: length of the blocks that the bootstrap drew, in steps.
        note: said when the sample is small, None otherwise.
    """

    count: int
    median: float
    mean: float
    std: float | None
    p5: float
    p95: float
    cv: float | None
    min: float
    max: float
    median_low: float | None
    median_high: float | None
    confidence: float
    block_length: int
    trend: Trend | None
    outliers: tuple[Outlier, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RankSummary:
    """One rank's step time inside the window; `relative` is its median over the median of all ranks."""

    rank: int | None
    node: str | None
    count: int
    median_step_time_s: float
    relative: float
    straggler: bool


@dataclass(frozen=True, slots=True)
class RankSpread:
    """How even the ranks are.

    Attributes:
        ranks: one summary a rank, slowest first.
        slowest_rank, slowest_node: of the first entry.
        spread: (slowest - fastest) / median of the ranks' medians.
        stragglers: those at least 5 % and 5 robust standard deviations above the median of the ranks.
        nodes: median over each node's ranks, where the log names nodes.
    """

    ranks: tuple[RankSummary, ...]
    slowest_rank: int | None
    slowest_node: str | None
    spread: float
    stragglers: tuple[RankSummary, ...]
    nodes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Validity:
    """Whether the numbers may be used: `incomplete` numbers stand but are flagged, `invalid` ones do not."""

    status: Status
    reasons: tuple[str, ...]
