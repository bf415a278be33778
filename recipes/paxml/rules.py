"""What a PAXML recipe must satisfy to start: said on the login node, before minutes of queue and set-up.

Sources: praxis 1.4.0 py_utils.create_device_mesh and layers/transformers.py, paxml 1.4.0 tasks/lm/model_params.py,
tasks/lm/params/lm_cloud.py and trainer_lib.py, jax 0.4.26 experimental/mesh_utils.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import schema, spec, xla
from cloudai_run.recipes.paxml.settings import Place, Settings, flags_of, product

MAX_LINES = 6
TIMED_STEPS = 20
"""PAXML prints the time of the first 20 steps of a process only (paxml 1.4.0 programs.py, `log_first_n(..., 20)`)."""
MIN_SAMPLES = 10
"""Step times that a report wants for its statistics, after it left a fifth of them out as warm-up."""


@dataclass(frozen=True)
class Violation:
    """A rule that a recipe breaks, and the numbers that show it."""

    rule: str
    message: str


Rule = Callable[[Settings, Place], Iterator[str]]


def _shown(shape: list[int] | None) -> str:
    return "[" + ", ".join(map(str, shape or ())) + "]"


def mesh(settings: Settings, place: Place) -> Iterator[str]:
    """The product of the two meshes is the number of devices; a mesh over nodes has one part a node."""
    ici, dcn = settings.mesh("ici_mesh_shape"), settings.mesh("dcn_mesh_shape")
    # A shape of the wrong type is told by the rule on knobs.
    if ici is None or (dcn is None and settings.knob("dcn_mesh_shape") is not None):
        return
    if dcn is not None and len(dcn) != len(ici):
        yield (
            f"ici_mesh_shape {_shown(ici)} has {len(ici)} axes and dcn_mesh_shape {_shown(dcn)} has {len(dcn)}: "
            "they must have the same"
        )
        return
    total = product(ici) * product(dcn)
    if total != place.devices:
        yield (
            f"ici_mesh_shape {_shown(ici)} x dcn_mesh_shape {_shown(dcn)} is {total} devices, and the run has "
            f"{place.devices} ({place.nodes} nodes x {place.devices // place.nodes})"
        )
    # One-rank CPU runs and a mesh within one slice place devices without asking for nodes.
    elif product(dcn) > 1 and product(dcn) != place.nodes:
        yield (
            f"dcn_mesh_shape {_shown(dcn)} is {product(dcn)} parts, and JAX makes one a node: there are "
            f"{place.nodes}; a mesh of ones leaves the nodes to ici_mesh_shape"
        )


def one_device_a_task(settings: Settings, place: Place) -> Iterator[str]:
    """JAX gives each Slurm task the one GPU of its local id."""
    gpus = place.gpus_per_node
    if not place.local and not settings.workload.smoke and gpus is not None and gpus != place.ntasks_per_node:
        yield (
            f"JAX gives each Slurm task one GPU: {gpus} GPUs a node need ntasks_per_node={gpus}, and it is "
            f"{place.ntasks_per_node}"
        )


def experts(settings: Settings, place: Place) -> Iterator[str]:
    """Experts are spread over the expert axis, tokens in groups over the devices."""
    count, groups = settings.number("num_experts"), settings.number("num_groups")
    ici, dcn = settings.mesh("ici_mesh_shape"), settings.mesh("dcn_mesh_shape")
    if not count or ici is None or (dcn is not None and len(dcn) != len(ici)):
        return
    # With expert parallelism the axes are [..., data, data_expert, mdl], else [..., data, mdl]; both have the
    # experts on the axis before the last.
    axis = len(ici) - 2
    size = ici[axis] * (dcn[axis] if dcn else 1)
    if count % size:
        yield f"num_experts={count} cannot be spread over an expert axis of {size} (axis {axis} of the meshes)"
    shards = product(ici[:-1]) * product(dcn[:-1] if dcn else None)
    if groups and groups % shards:
        yield f"num_groups={groups} cannot be spread over {shards} devices (all axes of the meshes but the last)"
    batch, length = settings.number("percore_batch_size"), settings.number("max_seq_len")
    if groups and batch and length:
        tokens = round(batch * place.devices) * length
        if tokens % groups:
            yield f"the global batch of {tokens:g} tokens cannot be cut into num_groups={groups}"


def batch(settings: Settings, place: Place) -> Iterator[str]:
    """Each process loads a whole number of sequences; PAXML rounds silently, down to none."""
    per_device = settings.number("percore_batch_size")
    if per_device is None:
        return
    local = per_device * place.devices_per_rank
    if local < 1 or local != round(local):
        yield (
            f"percore_batch_size={per_device:g} is {local:g} sequences a process with {place.devices_per_rank} "
            "device: it must be a whole number of at least 1"
        )
        return
    total = round(local) * place.ranks
    microbatches, size = settings.number("num_microbatches"), settings.number("microbatch_size")
    if settings.number("num_stages") and size and total % size:
        yield f"the global batch of {total} cannot be cut into microbatches of microbatch_size={size}"
    if settings.number("num_stages") and microbatches and total % microbatches:
        yield f"the global batch of {total} cannot be cut into num_microbatches={microbatches}"


def pipeline(settings: Settings, place: Place) -> Iterator[str]:
    """The first axis of the meshes is the stages, and each stage has as many layers as the others."""
    stages, layers = settings.number("num_stages"), settings.number("num_layers")
    ici, dcn = settings.mesh("ici_mesh_shape"), settings.mesh("dcn_mesh_shape")
    if not stages or ici is None:
        return
    first = ici[0] * (dcn[0] if dcn else 1)
    if first != stages:
        yield f"num_stages={stages}, and the first axis of the meshes is {first}: they must be the same"
    repeat = settings.number("circular_repeat") or 1
    if layers and layers % (stages * repeat):
        yield f"num_layers={layers} cannot be cut into {stages * repeat} pipeline stages of the same size"


def shapes(settings: Settings, place: Place) -> Iterator[str]:
    """Heads fill the model's dimension, and each group of query heads has one key-value head."""
    heads, groups = settings.number("num_heads"), settings.number("num_kv_heads")
    dims, per_head = settings.number("model_dims"), settings.number("dims_per_head")
    if heads and dims and per_head and heads * per_head != dims:
        yield f"num_heads={heads} x dims_per_head={per_head} is {heads * per_head}, and model_dims={dims}"
    if heads and groups and heads % groups:
        yield f"num_heads={heads} cannot be shared out to num_kv_heads={groups}"


def knobs(settings: Settings, place: Place) -> Iterator[str]:
    """PAXML accepts unknown knobs and those that a class ignores without a word."""
    for name, value in settings.knobs.items():
        try:
            schema.check_knob(settings.fdl_config, name)
        except RecipeError as error:
            yield str(error)
        else:
            kind = schema.knob_type(name)
            if not spec.fits(value, kind):
                yield f"fdl.{name} is {value!r}, and the knob takes {spec.type_text(kind)}"


def flags(settings: Settings, place: Place) -> Iterator[str]:
    """XLA ends the run at a flag that it does not know, and at a value that it cannot read."""
    jaxlib = settings.workload.jaxlib
    xla.check_version(jaxlib)
    if "XLA_FLAGS" in settings.workload.env:
        yield "workload.env sets XLA_FLAGS, which the xla node writes: xla.common, xla.profile and xla.perf"
    stages = ("profile", "perf") if profiles(settings) else ("perf",)
    by_stage = {stage: flags_of(settings, stage, place.devices) for stage in stages}
    for stage in stages:
        xla.check_names(by_stage[stage], f"xla.{stage}")
        if xla.PROFILE_FLAG in by_stage[stage]:
            yield f"xla.{stage} sets {xla.PROFILE_FLAG}: set pgle.profile (or pgle.enabled=False for none)"
    found = {
        text: None
        for stage in stages
        for name, value in sorted(by_stage[stage].items())
        if (text := xla.problem(name, value, jaxlib)) is not None
    }
    if found:
        yield (
            f"jaxlib {jaxlib} rejects {len(found)} XLA flag{'s' if len(found) > 1 else ''}; "
            "xla.modern=True sets what it takes\n" + "\n".join(f"  {text}" for text in found)
        )


def profiling(settings: Settings, place: Place) -> Iterator[str]:
    """One process can have one user of CUPTI: nsys or JAX's own profiler."""
    pgle, nsys = settings.pgle, settings.nsys
    if pgle.enabled and pgle.mode == "auto" and nsys.enabled:
        yield (
            "nsys.enabled with pgle.mode=auto: both need CUPTI, which has one client a process; use pgle.mode=nsys, "
            "or profile another run"
        )
    if pgle.profile is not None and pgle.mode == "auto":
        yield "pgle.profile with pgle.mode=auto: JAX makes its own profile there; leave one of them out"
    if pgle.profile is not None and not pgle.profile.startswith("/"):
        yield f"pgle.profile is {pgle.profile!r}: it must be an absolute path, the same on every node"


RULES: dict[str, Rule] = {
    "knobs": knobs,
    "mesh": mesh,
    "one_device_a_task": one_device_a_task,
    "experts": experts,
    "batch": batch,
    "pipeline": pipeline,
    "shapes": shapes,
    "xla_flags": flags,
    "profiling": profiling,
}


def profiles(settings: Settings) -> bool:
    """Returns whether the run has a profile stage."""
    return settings.pgle.enabled and settings.pgle.mode == "nsys" and settings.pgle.profile is None


def check(settings: Settings, place: Place) -> list[Violation]:
    """Returns every rule that the settings break at a place, in the order of `RULES`."""
    found = ((name, text) for name, rule in RULES.items() for text in rule(settings, place))
    return [Violation(name, text) for name, text in found]


def refuse(violations: Iterable[Violation], name: str) -> None:
    """Raises the violations as one error of a few lines.

    Raises:
        RecipeError: if there are any.
    """
    found = list(violations)
    if not found:
        return
    lines = list(itertools.chain.from_iterable(violation.message.split("\n") for violation in found))
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more lines"]
    raise RecipeError(f"{name} cannot run so: " + "\n  ".join(line.strip() for line in lines))


def samples_of(max_steps: int) -> int:
    """Returns how many step times of a run are left after the warm-up."""
    timed = min(max_steps, TIMED_STEPS)
    return timed - max(1, timed // 5) if timed > 0 else 0


def notes(settings: Settings) -> list[str]:
    """Returns what a user should know of a run that can start, one line each."""
    steps = settings.number("max_steps")
    if steps is None:
        return [f"{settings.fdl_config} has no MAX_STEPS: the run ends when it is stopped"]
    found = []
    if samples_of(int(steps)) < MIN_SAMPLES:
        enough = next(count for count in range(TIMED_STEPS) if samples_of(count) >= MIN_SAMPLES)
        found.append(
            f"max_steps={steps:g} leaves {samples_of(int(steps))} step times after the warm-up: "
            f"from {enough} on there are enough for statistics"
        )
    if steps > TIMED_STEPS:
        found.append(f"PAXML prints the time of the first {TIMED_STEPS} of max_steps={steps:g} steps only")
    return found
