"""Conditions under which a comparison fails, for CI: `--fail-if step_time_s>+3%` and reference files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cloudai_run.errors import UserError
from cloudai_run.metrics.compare import Comparison, Pair
from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.run_data import RunData, Side
from cloudai_run.recipes.suggest import did_you_mean

Operator = Literal["<", ">", "<=", ">="]
_OPERATORS: Final[dict[str, Operator]] = {"<": "<", ">": ">", "<=": "<=", ">=": ">="}
_GATE = re.compile(
    r"\s*(?P<metric>\w+)\s*(?P<operator><=|>=|<|>)\s*"
    r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\s*(?P<percent>%?)\s*"
)
_EXAMPLES = "'step_time_s>+3%' (a change) or 'step_time_s>2.5' (a value)"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A condition that must not hold.

    Attributes:
        limit: A relative change (0.03) if `relative`, else a value in the metric's unit.
        text: As the user wrote it.
    """

    metric: str
    operator: Operator
    limit: float
    relative: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """One gate on one side.

    Attributes:
        side: The side's name.
        failed: Whether the condition holds.
        message: What was seen, in one line.
    """

    gate: str
    side: str
    failed: bool
    message: str


def parse_gate(text: str) -> Gate:
    """Reads `METRIC<OPERATOR>NUMBER`, with `+` or `-` and `%` for a change against the first side.

    Raises:
        UserError: The text is none, or the metric is not known.
    """
    match = _GATE.fullmatch(text)
    if match is None:
        raise UserError(f"--fail-if {text!r} is no condition\n  write {_EXAMPLES}")
    metric = match["metric"]
    if metric not in METRICS:
        near = did_you_mean(metric, METRICS)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(METRICS)}"
        raise UserError(f"--fail-if {text!r}: there is no metric {metric!r}\n  {hint}")
    number, sign, percent = float(match["number"]), match["sign"], match["percent"]
    is_ratio = METRICS[metric].unit == "1"
    if sign and not percent:
        raise UserError(f"--fail-if {text!r}: a change is given in per cent\n  write {_EXAMPLES}")
    if percent and not sign and not is_ratio:
        raise UserError(f"--fail-if {text!r}: a change needs its sign, + or -\n  write {_EXAMPLES}")
    value = number / 100 if percent else number
    return Gate(
        metric=metric,
        operator=_OPERATORS[match["operator"]],
        limit=-value if sign == "-" else value,
        relative=bool(sign),
        text=text.strip(),
    )


def refuse_unfit_runs(sides: Iterable[Side], use: str) -> None:
    """Raises a UserError if a run may not take part in `use` ("a gate").

    A smoke run's numbers are no benchmark.
    """
    for side in sides:
        for run in side.runs:
            if run.smoke:
                raise UserError(
                    f"{run.label} is a CPU smoke run: not a benchmark, so it takes no part in {use}\n"
                    "  compare it without, or launch a full run"
                )


def evaluate_gates(gates: Sequence[Gate], comparison: Comparison) -> list[GateResult]:
    """Returns each gate's result on each side after the first; a value gate also on a side that stands alone.

    An invalid run fails every gate: its numbers do not stand.

    Raises:
        UserError: A smoke run takes part, a metric has no value, or a change has nothing to be a change of.
    """
    if not gates:
        return []
    refuse_unfit_runs(comparison.sides, "a gate")
    if comparison.pairs:
        return [_on_pair(gate, pair) for gate in gates for pair in comparison.pairs]
    return [_on_side(gate, comparison.sides[0]) for gate in gates]


def _on_pair(gate: Gate, pair: Pair) -> GateResult:
    if not gate.relative:
        return _on_side(gate, pair.after)
    for side in (pair.before, pair.after):
        _require_value(gate, side)
    invalid = _invalid(gate, pair.after)
    if invalid is not None:
        return invalid
    for run in pair.before.runs:
        if run.status == "invalid":
            raise UserError(f"--fail-if {gate.text}: {pair.before.name} is invalid: {_why(run)}")
    row = pair.row(gate.metric)
    if row is None or row.effect is None:
        raise UserError(f"--fail-if {gate.text}: {gate.metric} is not a positive number, so it has no change")
    seen = row.effect.change
    interval = "" if row.effect.low is None else f" [{row.effect.low:+.1%}, {row.effect.high:+.1%}]"
    verdict = f"{row.word}: {row.reason}" if row.word == "not tested" else row.word
    return _result(
        gate, pair.after.name, seen, f"{seen:+.1%}{interval} against {pair.before.name} ({verdict})"
    )


def _on_side(gate: Gate, side: Side) -> GateResult:
    if gate.relative:
        raise UserError(
            f"--fail-if {gate.text}: a change needs a second run to compare with\n"
            "  give two runs, or --against published, or a value: 'step_time_s>2.5'"
        )
    seen = _require_value(gate, side)
    invalid = _invalid(gate, side)
    unit = METRICS[gate.metric].unit
    return invalid or _result(gate, side.name, seen, f"{seen:.6g}" if unit == "1" else f"{seen:.6g} {unit}")


def _require_value(gate: Gate, side: Side) -> float:
    value = side.value(gate.metric)
    if value is None:
        why = side.why_missing(gate.metric)
        raise UserError(f"--fail-if {gate.text}: {gate.metric} has no value in {side.name}\n  {why}")
    return value


def _invalid(gate: Gate, side: Side) -> GateResult | None:
    for run in side.runs:
        if run.status == "invalid":
            return GateResult(
                gate=gate.text, side=side.name, failed=True, message=f"{run.label} is invalid: {_why(run)}"
            )
    return None


def _why(run: RunData) -> str:
    return "; ".join(run.reasons) or "see its report"


def _result(gate: Gate, side: str, seen: float, message: str) -> GateResult:
    failed = holds(seen, gate.operator, gate.limit)
    return GateResult(gate=gate.text, side=side, failed=failed, message=message)


def holds(seen: float, operator: Operator, limit: float) -> bool:
    """Returns whether `seen operator limit` holds."""
    if operator == "<":
        return seen < limit
    if operator == ">":
        return seen > limit
    return seen <= limit if operator == "<=" else seen >= limit
