"""The stages of a PAXML run, as data that any executor can make its own stages of.

    [prepare] -> profile -> convert -> check -> perf

`profile` and `perf` run PAXML on all ranks with XLA flags of their own. What must expand on a rank is an explicit
marker; nothing here is shell text.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import rules, xla
from cloudai_run.recipes.paxml.knobs import knob_args
from cloudai_run.recipes.paxml.settings import Place, Settings, flags_of, placed, settings_of
from cloudai_run.recipes.paxml.tree import Json

if TYPE_CHECKING:
    import fiddle as fdl

END_MARKER = "E2E time: Elapsed time for"
"""Each rank of PAXML prints this when, and only when, it came to its end."""

_PREPARE = """\
import os, sys
folder, *files = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
for name, text in zip(files[::2], files[1::2]):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
"""


@dataclass(frozen=True)
class Variable:
    """An environment variable that expands on the rank."""

    name: str


@dataclass(frozen=True)
class HeadNode:
    """The name of the first node."""


@dataclass(frozen=True)
class Report:
    """The path of the report that nsys writes of one rank of a stage."""

    stage: str
    rank: int


Marker = Variable | HeadNode | Report
Word = str | Marker | tuple[str | Marker, ...]

Layout = Literal["all_ranks", "once"]


@dataclass(frozen=True, kw_only=True)
class NsysSpec:
    """Ranks of a stage that nsys wraps, how it captures, and its options by name (None drops a default)."""

    ranks: tuple[int, ...]
    capture: Literal["api", "whole"]
    options: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StageSpec:
    """One step of a PAXML run.

    Attributes:
        name: of the stage.
        argv: the program and its arguments.
        env: environment of the stage.
        layout: `all_ranks`, or `once` on the first node.
        container_image: None for the executor's.
        marker: text that every rank must print.
        nsys: ranks to profile.
        artifacts: files that must be there afterwards, with a hint for when they are not.
        timeout_s: None for none.
        measured: its step times are the result of the run.
    """

    name: str
    argv: tuple[Word, ...]
    env: Mapping[str, Word] = field(default_factory=dict)
    layout: Layout = "all_ranks"
    container_image: str | None = None
    marker: str | None = None
    nsys: NsysSpec | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    timeout_s: int | None = None
    measured: bool = False

    def plain(self, word: Word) -> str:
        """Returns a word without markers.

        Raises:
            RecipeError: if it has one: only an executor can expand it.
        """
        pieces = word if isinstance(word, tuple) else (word,)
        if not all(isinstance(piece, str) for piece in pieces):
            raise RecipeError(f"stage {self.name} needs an executor: {word} expands on a rank")
        return "".join(map(str, pieces))


@dataclass(frozen=True)
class _Run:
    """What all stages of one run share."""

    settings: Settings
    place: Place
    run_dir: str

    @property
    def folder(self) -> str:
        """Where the files that the run carries lie."""
        return f"{self.run_dir}/paxml"

    @property
    def profile(self) -> str:
        """The PGLE profile of the perf stage."""
        return self.settings.pgle.profile or f"{self.run_dir}/pgle/profile.pbtxt"


def carried_files(settings: Settings) -> dict[str, str]:
    """Returns the files that a run needs in its run folder, name to text: the project need not be in a container."""
    names = ["cloudai_run_rank.py"]
    if uses_profile(settings):
        names.append("cloudai_run_pgle.py")
    if settings.fdl_config.startswith("cloudai_run_paxml."):
        names.append("cloudai_run_paxml.py")
    return {name: (Path(__file__).parent / name).read_text(encoding="utf-8") for name in names}


def uses_profile(settings: Settings) -> bool:
    """Returns whether the perf stage gets a profile, made before it or given."""
    return settings.pgle.enabled and settings.pgle.mode == "nsys"


def stage_specs(
    recipe: fdl.Buildable | Mapping[str, Json],
    *,
    nodes: int,
    ntasks_per_node: int,
    run_dir: str,
    local: bool = False,
    gpus_per_node: int | None = None,
) -> tuple[StageSpec, ...]:
    """Returns the stages of a recipe, or of its tree, in the order in which they run.

    Args:
        recipe: the recipe.
        nodes: of the allocation.
        ntasks_per_node: ranks a node.
        run_dir: absolute path of the run folder, the same on every node and in the container.
        local: no Slurm: the ranks meet on this machine.
        gpus_per_node: None if nobody said.

    Raises:
        RecipeError: for a recipe that could not run there, with the reason.
    """
    place = Place(nodes, ntasks_per_node, gpus_per_node, local)
    return stage_specs_of(settings_of(recipe), place=place, run_dir=run_dir)


def stage_specs_of(settings: Settings, *, place: Place, run_dir: str) -> tuple[StageSpec, ...]:
    """Returns the stages of a recipe's values; see `stage_specs`."""
    settings = placed(settings, place)
    rules.refuse(rules.check(settings, place), settings.workload.factory)
    run = _Run(settings, place, run_dir)
    stages = [_prepare(run)]
    if rules.profiles(settings):
        stages += [_train(run, "profile"), _convert(run)]
    if uses_profile(settings):
        stages.append(_check(run))
    return (*stages, _train(run, "perf"))


def _prepare(run: _Run) -> StageSpec:
    files = [text for pair in carried_files(run.settings).items() for text in pair]
    return _once(run, "prepare", (run.settings.workload.python, "-c", _PREPARE, run.folder, *files))


def _once(
    run: _Run, name: str, argv: tuple[Word, ...], artifacts: Mapping[str, str] | None = None
) -> StageSpec:
    image = run.settings.workload.container_image
    return StageSpec(name=name, argv=argv, layout="once", container_image=image, artifacts=artifacts or {})


def _train(run: _Run, stage: Literal["profile", "perf"]) -> StageSpec:
    """Returns a stage that runs PAXML on every rank."""
    settings = run.settings
    wrapped = stage == "profile" or settings.nsys.enabled
    nsys = NsysSpec(
        ranks=tuple(settings.nsys.ranks), capture=settings.nsys.capture, options=dict(settings.nsys.options)
    )
    return StageSpec(
        name=stage,
        argv=train_argv(run.settings, run.place, run.run_dir, stage),
        env=train_env(settings, run.place, stage, run.profile if uses_profile(settings) else None),
        container_image=settings.workload.container_image,
        marker=END_MARKER,
        nsys=nsys if wrapped else None,
        timeout_s=settings.workload.timeout_s,
        measured=stage == "perf",
    )


def train_argv(settings: Settings, place: Place, run_dir: str, stage: str) -> tuple[Word, ...]:
    """Returns the command of one rank of a stage that runs PAXML."""
    workload = settings.workload
    flags = {"alsologtostderr": True, "enable_checkpoint_saving": False, **workload.main_flags}
    return (
        *(workload.python, "-u", f"{run_dir}/paxml/cloudai_run_rank.py"),
        f"--fdl_config={settings.fdl_config}",
        *knob_args(dict(settings.knobs)),
        f"--job_log_dir={run_dir}/paxml/{stage}",
        *(f"--{name}={xla.text_of(value)}" for name, value in sorted(flags.items())),
        *_meeting(place, run_dir, stage),
    )


def readable(word: Word) -> str:
    """Returns a word for a person: a variable that expands on the rank is `$NAME`."""
    pieces = word if isinstance(word, tuple) else (word,)
    return "".join(piece if isinstance(piece, str) else _readable_marker(piece) for piece in pieces)


def _readable_marker(marker: Marker) -> str:
    if isinstance(marker, Variable):
        return f"${marker.name}"
    return "$HEAD_NODE" if isinstance(marker, HeadNode) else f"REPORT_OF_{marker.stage}_{marker.rank}"


def _meeting(place: Place, run_dir: str, stage: str) -> tuple[Word, ...]:
    """Returns the arguments by which ranks find each other: no MPI, and a port that follows from the job."""
    if place.local and place.ranks == 1:
        return ()
    address: Word = ("--server_addr=", HeadNode(), ":job-", Variable("SLURM_JOB_ID"))
    if place.local:
        # Without a job id: a number that follows from the run folder and the stage.
        address = f"--server_addr=127.0.0.1:job-{zlib.crc32(f'{run_dir}/{stage}'.encode())}"
    return (
        "--multiprocess_gpu",
        address,
        ("--num_hosts=", Variable("SLURM_NTASKS")),
        ("--host_idx=", Variable("SLURM_PROCID")),
    )


def train_env(settings: Settings, place: Place, stage: str, profile: str | None) -> dict[str, Word]:
    """Returns the environment of a stage that runs PAXML; `profile` is the PGLE profile of the perf stage."""
    flags = flags_of(settings, stage, place.devices)
    if stage == "perf" and profile is not None:
        flags[xla.PROFILE_FLAG] = profile
    env: dict[str, Word] = dict(settings.workload.env)
    pgle = settings.pgle
    if pgle.enabled and pgle.mode == "auto":
        env |= {
            "JAX_ENABLE_PGLE": "true",
            "JAX_PGLE_PROFILING_RUNS": str(pgle.profiling_runs),
            "JAX_PGLE_AGGREGATION_PERCENTILE": str(pgle.aggregation_percentile),
        }
    return env | {"XLA_FLAGS": xla.render(flags)}


def _convert(run: _Run) -> StageSpec:
    settings = run.settings
    argv: tuple[Word, ...] = (
        *(settings.workload.python, f"{run.folder}/cloudai_run_pgle.py", "convert"),
        *("--report", Report("profile", settings.nsys.ranks[0])),
        *("--profile", run.profile),
        *("--converter", settings.pgle.converter),
        *("--capture", settings.nsys.capture),
    )
    return _once(run, "convert", argv)


def _check(run: _Run) -> StageSpec:
    tool = f"{run.folder}/cloudai_run_pgle.py"
    return _once(run, "check", (run.settings.workload.python, tool, "check", "--profile", run.profile))
