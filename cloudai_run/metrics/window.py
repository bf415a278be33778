"""The steady window: which steps the statistics rest on, by a rule that is stated and can be overridden.

What is left out, in this order: steps without a time; the warm-up of each format; the first steps after a
restart; profiled steps; the steps that run while or right after a checkpoint is written or a validation has
run (the frameworks stop their timers before either, so it is the next step that is disturbed).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cloudai_run.errors import UserError
from cloudai_run.metrics.samples import Excluded, FormatName, ParsedLog, Step, Window
from cloudai_run.metrics.series import job_series

ENOUGH_STEPS = 10
_OVERRIDE = re.compile(r"([0-9]*):([0-9]*)")


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A format's warm-up: a fifth of the timed steps, at most 10, at least `least` (at most half of them).

    Attributes:
        least: the smallest number of first steps to leave out.
        why: what happens in them.
        after_profile: further steps that a profiler's stop disturbs.
    """

    least: int
    why: str
    after_profile: int = 1


_MOVING_MEAN = "NeMo's timer may print the mean of the last 5 steps"
_COMPILATION = "compilation and first allocations"
# Sources: the logs of these frameworks. Megatron-Bridge captures CUDA graphs in its fourth iteration; MaxText
# times the first steps while they are only dispatched.
WARM_UPS: Mapping[FormatName, WarmUp] = {
    "nemo2": WarmUp(1, _COMPILATION),
    "nemo2_dllogger": WarmUp(5, f"{_COMPILATION}; {_MOVING_MEAN}", after_profile=5),
    "nemo1": WarmUp(5, f"{_COMPILATION}; {_MOVING_MEAN}", after_profile=5),
    "megatron_lm": WarmUp(1, _COMPILATION),
    "megatron_bridge": WarmUp(4, f"{_COMPILATION}; CUDA graphs are captured in the fourth iteration"),
    "paxml": WarmUp(1, "compilation, then dispatch without waiting; PAXML times its first 20 steps only"),
    "maxtext": WarmUp(3, "compilation, then dispatch without waiting"),
}
_OTHER = WarmUp(1, _COMPILATION)
_SHARE = 5
_MOST = 10


def parse_window(text: str) -> tuple[int | None, int | None]:
    """Returns first (included) and last (excluded) step of `10:50`, `10:` or `:50`, as in Python's slices.

    Raises:
        UserError: not of that form, or empty.
    """
    found = _OVERRIDE.fullmatch(text.strip())
    if found is None:
        raise UserError(
            f"--window {text}: not understood\n  write FIRST:LAST, for instance 10:50 for steps 10 to 49"
        )
    first, last = (int(group) if group else None for group in found.groups())
    if first is not None and last is not None and first >= last:
        raise UserError(f"--window {text}: no step is at least {first} and below {last}")
    return first, last


def warm_up_steps(format: FormatName | None, timed: int) -> int:
    """Returns how many of the first timed steps are left out as warm-up."""
    if timed == 0:
        return 0
    return max(1, min(_MOST, timed // _SHARE), min(_warm_up(format).least, timed // 2))


def _warm_up(format: FormatName | None) -> WarmUp:
    return WARM_UPS.get(format, _OTHER) if format is not None else _OTHER


def steady_window(
    log: ParsedLog, *, override: str | None = None, profiled: tuple[int, int] | None = None
) -> Window:
    """Returns the window of a log.

    Args:
        log: a training log.
        override: `FIRST:LAST` in the log's own step numbers, in place of the rule: all timed steps in it.
        profiled: first and last profiled step, if it is known from elsewhere than the log.

    Raises:
        UserError: the override is not of its form.
    """
    series = job_series(log.steps)
    if override is not None:
        reasons, rule = _by_override(series, override), f"--window {override.strip()}"
        note = None
    else:
        reasons, rule, note = _by_rule(log, series, profiled or log.profiled_steps)
    inside = tuple(step for step in series if step.step not in reasons)
    return Window(
        rule=rule,
        steps=inside,
        all_steps=series,
        excluded=tuple(Excluded(step, reason) for step, reason in sorted(reasons.items())),
        first_step=inside[0].step if inside else None,
        last_step=inside[-1].step if inside else None,
        note=_joined(note, _few(inside, series, reasons)),
    )


def _by_override(series: Collection[Step], override: str) -> dict[int, str]:
    first, last = parse_window(override)
    reasons: dict[int, str] = {}
    for step in series:
        if (first is not None and step.step < first) or (last is not None and step.step >= last):
            reasons[step.step] = f"outside {override.strip()}"
        elif step.step_time_s is None:
            reasons[step.step] = "no step time"
    return reasons


def _by_rule(
    log: ParsedLog, series: tuple[Step, ...], profiled: tuple[int, int] | None
) -> tuple[dict[int, str], str, str | None]:
    """Returns the reason of each step that is out, the rule in words, and what else is to be said."""
    timed = [step for step in series if step.step_time_s is not None]
    reasons = {step.step: "no step time" for step in series if step.step_time_s is None}
    count = warm_up_steps(log.format, len(timed))
    reasons.update((step.step, "warm-up") for step in timed[:count])
    warm_up = _warm_up(log.format)
    parts = [f"first {count} of {len(timed)} timed steps left out as warm-up ({warm_up.why})"]
    for before, step in itertools.pairwise(timed):
        if step.attempt != before.attempt:
            reasons.setdefault(step.step, "first after a restart")
    if profiled is not None:
        last = profiled[1] + warm_up.after_profile
        for step in timed:
            if profiled[0] <= step.step <= last:
                reasons.setdefault(step.step, "profiled")
        parts.append(
            f"profiled steps {profiled[0]} to {profiled[1]} and {warm_up.after_profile} more left out"
        )
    disturbed = _disturbed(log, timed, reasons)
    left = sum(step.step not in reasons for step in timed)
    if disturbed and len(disturbed) * 2 > left:
        note = f"a checkpoint or validation before {len(disturbed)} of {left} steps: these are kept"
        return reasons, "; ".join(parts), note
    reasons.update(disturbed)
    if disturbed:
        parts.append(f"{len(disturbed)} steps after checkpoints and validations left out")
    return reasons, "; ".join(parts), None


def _disturbed(log: ParsedLog, timed: list[Step], reasons: Mapping[int, str]) -> dict[int, str]:
    """Returns the steps right after a checkpoint or a validation that are not out for another reason."""
    found: dict[int, str] = {}
    for before, step in itertools.pairwise(timed):
        covered = range(before.step, step.step)
        if step.step in reasons:
            continue
        if any(number in log.checkpoint_steps for number in covered):
            found[step.step] = "after a checkpoint"
        elif any(number in log.validation_steps for number in covered):
            found[step.step] = "after a validation"
    return found


def _few(inside: tuple[Step, ...], series: tuple[Step, ...], reasons: Mapping[int, str]) -> str | None:
    """Returns what to say about a window that holds few steps or none."""
    if not series:
        return "the log holds no step"
    if not inside:
        if all(reason == "no step time" for reason in reasons.values()):
            return f"none of the {len(series)} steps has a step time"
        return f"no step is left of {len(series)}: the run was too short, or name the steps with --window"
    if len(inside) < ENOUGH_STEPS:
        steps = "one step" if len(inside) == 1 else f"{len(inside)} steps"
        return f"only {steps} in the window: take the numbers as rough"
    return None


def _joined(*notes: str | None) -> str | None:
    said = [note for note in notes if note]
    return "; ".join(said) if said else None
