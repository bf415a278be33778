"""Parts of an executor's configuration as plain data that NeMo-Run can clone and write as YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Gate, Layout, Mpi, Nsys, NsysCapture, Stage, Word

_E = TypeVar("_E", bound=Enum)


def member(enum: type[_E], value: str, where: str) -> _E:
    """The member of `enum` with this value.

    Raises:
        ExecutorError: there is none.
    """
    for one in enum:
        if one.value == value:
            return one
    raise ExecutorError(f"{where}={value!r}: it must be one of {', '.join(str(one.value) for one in enum)}")


@dataclass(kw_only=True)
class NsysOptions:
    """Profiles chosen ranks with nsys.

    Attributes:
        ranks: ranks to wrap.
        options: over the defaults, by name; None drops one (see `plan.Nsys`).
        capture: `api` (between cudaProfilerStart and cudaProfilerStop) or `whole`.
        binary: name or path of nsys where the rank runs.
        stages: names of the stages to profile; None for each that runs on all ranks, but not the preflight.
    """

    ranks: list[int] = field(default_factory=lambda: [0])
    options: dict[str, str | None] = field(default_factory=dict)
    capture: str = "api"
    binary: str = "nsys"
    stages: list[str] | None = None

    def spec(self) -> Nsys:
        """The same as part of a plan."""
        capture = member(NsysCapture, self.capture, "nsys.capture")
        return Nsys(ranks=tuple(self.ranks), options=dict(self.options), capture=capture, binary=self.binary)


@dataclass(kw_only=True)
class Preflight:
    """A stage before all others that must pass, say a collective test: a sick node costs seconds.

    Attributes:
        argv: program and arguments.
        mpi: `none`, `pmix` or `pmi2`.
        layout: `all_ranks`, `once_per_node` or `once`.
        gate: text that the output must hold; None takes the exit code alone.
        every_rank: each rank must have printed `gate`.
        env: environment of this stage.
        container: as in `plan.Stage`, see `SlurmExecutor.containers`; None for the executor's image.
        timeout_s: None for no limit but the job's.
        name: of the stage.
    """

    argv: list[str]
    mpi: str = "none"
    layout: str = "all_ranks"
    gate: str | None = None
    every_rank: bool = False
    env: dict[str, Word] = field(default_factory=dict)
    container: str | None = None
    timeout_s: int | None = None
    name: str = "preflight"

    def stage(self) -> Stage:
        """The same as a stage of a plan."""
        return Stage(
            name=self.name,
            argv=tuple(self.argv),
            env=dict(self.env),
            mpi=member(Mpi, self.mpi, "preflight.mpi"),
            layout=member(Layout, self.layout, "preflight.layout"),
            gate=Gate(text=self.gate, every_rank=self.every_rank) if self.gate else None,
            container=self.container,
            timeout_s=self.timeout_s,
        )
