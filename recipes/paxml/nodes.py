"""The nodes of a PAXML recipe beside its knobs: what `run.Config(...)` stands for in one, and what it builds.

`schema.py` reads their fields and annotations, so that the command line and Python accept the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from typing import Literal

from cloudai_run.recipes.paxml import xla

Scalar = bool | int | float | str

_FLAG_TYPES: dict[str, type] = {"bool": bool, "int": int, "str": str}

StageFlags = make_dataclass(
    "StageFlags",
    [
        ("combine_threshold_bytes", int | None, field(default=None)),
        ("extra", dict[str, Scalar], field(default_factory=dict)),
        *(
            (name, _FLAG_TYPES[flag.type] | None, field(default=None))
            for name, flag in xla.table().flags.items()
        ),
    ],
    frozen=True,
    kw_only=True,
)
StageFlags.__module__ = __name__
StageFlags.__doc__ = """XLA flags of one set; None leaves a flag to XLA.

Attributes:
    combine_threshold_bytes: for all-gather and all-reduce; reduce-scatter gets it divided by the number of GPUs. A
        threshold that is given by its own name wins.
    extra: flags that the table of known flags lacks, by name; no jaxlib version is checked for them.
"""


@dataclass(frozen=True, kw_only=True)
class XlaFlags:
    """XLA flags by stage: `common` go to both stages, and a stage's own win over them.

    Attributes:
        modern: True replaces or drops the flags that workload.jaxlib rejects (`unknown`: the newest that was
            measured); False refuses to run with them.
    """

    modern: bool = False
    common: StageFlags  # pyright: ignore[reportInvalidTypeForm]
    profile: StageFlags  # pyright: ignore[reportInvalidTypeForm]
    perf: StageFlags  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True, kw_only=True)
class Pgle:
    """Profile-guided latency estimation.

    Attributes:
        enabled: False runs the perf stage alone, without a profile.
        mode: `nsys`: a profile stage before the perf stage. `auto`: JAX profiles by itself within the perf stage
            (JAX_ENABLE_PGLE, which the JAX of early 2024 lacks).
        profile: absolute path of an earlier profile on the cluster; skips the profile stage.
        converter: module that turns nsys's report into a profile, or the absolute path of such a program.
        profiling_runs: steps that JAX profiles in mode `auto`.
        aggregation_percentile: of the profiled costs, in mode `auto`.
    """

    enabled: bool = True
    mode: Literal["nsys", "auto"] = "nsys"
    profile: str | None = None
    converter: str = "jax.tools.pgo_nsys_converter"
    profiling_runs: int = 3
    aggregation_percentile: int = 90


@dataclass(frozen=True, kw_only=True)
class Nsys:
    """How nsys wraps ranks, in the profile stage always, in the perf stage if `enabled`.

    Attributes:
        enabled: True wraps the perf stage as well, which disturbs its step times.
        capture: `whole`: from beginning to end. `api`: from cudaProfilerStart to cudaProfilerStop, which upstream
            PAXML never calls, so that nsys would write nothing; for containers that do.
        ranks: ranks to wrap. Each wrapped rank costs time.
        options: of `nsys profile` by name, over the executor's defaults; None drops one.
    """

    enabled: bool = False
    capture: Literal["api", "whole"] = "whole"
    ranks: list[int] = field(default_factory=lambda: [0])
    options: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a run of PAXML needs beside the experiment.

    Attributes:
        factory: the recipe's name.
        num_nodes, num_gpus_per_node: the layout that the recipe is for; an executor's own wins.
        gpu: model of the GPU that the recipe is for, for reports.
        container_image: with PAXML in it; None runs what is installed on the nodes.
        jaxlib: version in the container, such as `0.4.31`, or `unknown`: XLA flags are checked against it.
        env: environment of every stage that runs PAXML.
        python: the interpreter that has PAXML.
        main_flags: more flags of paxml.main, by name without dashes.
        data_axis: axis of dcn_mesh_shape that grows with the nodes while the recipe leaves dcn_mesh_shape unset;
            None leaves the class's mesh.
        ici_axis: axis of ici_mesh_shape that takes a node's devices while the recipe leaves ici_mesh_shape unset.
        groups_follow_devices: num_groups is the number of devices while the recipe leaves it unset.
        smoke: a small model on CPUs, whose numbers are no benchmark.
        timeout_s: of each stage that runs PAXML; None for none.
    """

    factory: str
    num_nodes: int = 1
    num_gpus_per_node: int = 8
    gpu: str | None = None
    container_image: str | None = None
    jaxlib: str = xla.UNKNOWN
    env: dict[str, str] = field(default_factory=dict)
    python: str = "python3"
    main_flags: dict[str, Scalar] = field(default_factory=dict)
    data_axis: int | None = None
    ici_axis: int | None = None
    groups_follow_devices: bool = False
    smoke: bool = False
    timeout_s: int | None = None
