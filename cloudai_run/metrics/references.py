"""Reference values that a run must hold, from a file: (value, lower, upper, unit) for each metric.

As in ReFrame, `lower` and `upper` are fractions of the value, None for no bound: (2.26, -0.05, 0.03, "s")
allows 2.147 s to 2.328 s. A table `where` names what the run must be for the references to apply.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloudai_run.errors import UserError
from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.gates import GateResult, refuse_unfit_runs
from cloudai_run.metrics.gpus import canonical_precision, find_gpu
from cloudai_run.metrics.run_data import Side
from cloudai_run.recipes.suggest import did_you_mean

_CONDITIONS: Final = (
    "recipe",
    "gpu_model",
    "num_gpus",
    "precision",
    "global_batch_size",
    "seq_length",
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What a metric must be: between value x (1 + lower) and value x (1 + upper)."""

    metric: str
    value: float
    lower: float | None
    upper: float | None
    unit: str

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The lowest and the highest value allowed, in the metric's unit."""
        return (
            None if self.lower is None else self.value * (1 + self.lower),
            None if self.upper is None else self.value * (1 + self.upper),
        )


@dataclass(frozen=True, kw_only=True)
class ReferenceFile:
    """The content of a reference file."""

    path: Path
    references: tuple[Reference, ...]
    where: Mapping[str, object]


def load_references(path: Path) -> ReferenceFile:
    """Reads a TOML file, or a YAML file by its ending.

    Raises:
        UserError: The file cannot be read, or an entry is no reference.
    """
    data = _read(path)
    where = data.pop("where", {})
    if not isinstance(where, Mapping):
        raise UserError(f"{path}: where must be a table, got {where!r}")
    for name in where:
        if name not in _CONDITIONS:
            raise UserError(f"{path}: where.{name} is no condition\n  known: {', '.join(_CONDITIONS)}")
    if not data:
        raise UserError(f'{path} holds no reference\n  an example: step_time_s = [2.26, -0.05, 0.03, "s"]')
    references = tuple(_reference(path, name, entry) for name, entry in data.items())
    return ReferenceFile(path=path, references=references, where=where)


def _read(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the references in {path}: {error.strerror}") from error
    if path.suffix in (".yaml", ".yml"):
        import yaml

        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    else:
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{path} is not valid TOML: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path} must hold a table of metrics")
    return {str(name): value for name, value in data.items()}


def _reference(path: Path, name: str, entry: object) -> Reference:
    if name not in METRICS:
        near = did_you_mean(name, METRICS)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(METRICS)}"
        raise UserError(f"{path}: there is no metric {name!r}\n  {hint}")
    unit = METRICS[name].unit
    if isinstance(entry, Mapping):
        unknown = sorted(set(entry) - {"value", "lower", "upper", "unit"})
        if unknown:
            raise UserError(f"{path}: {name}.{unknown[0]} is not known\n  known: value, lower, upper, unit")
        entry = [entry.get(key) for key in ("value", "lower", "upper", "unit")]
    if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 4:
        raise UserError(
            f'{path}: {name} must be [value, lower, upper, unit]\n  an example: [2.26, -0.05, 0.03, "{unit}"]'
        )
    value, lower, upper, given_unit = entry
    if given_unit != unit:
        raise UserError(f"{path}: {name} is measured in {unit!r}, and the reference says {given_unit!r}")
    return Reference(
        metric=name,
        value=_number(path, f"{name} value", value, least=0),
        lower=None if lower is None else _number(path, f"{name} lower", lower, least=-1, most=0),
        upper=None if upper is None else _number(path, f"{name} upper", upper, least=0),
        unit=unit,
    )


def _number(path: Path, what: str, value: object, *, least: float, most: float | None = None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{path}: {what} must be a number, got {value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least:g}" if most is None else f"between {least:g} and {most:g}"
        raise UserError(f"{path}: {what} must be {allowed} (a fraction of the value), got {value!r}")
    return float(value)


def evaluate_references(file: ReferenceFile, side: Side) -> list[GateResult]:
    """Returns whether a side holds each reference.

    Raises:
        UserError: The references are for another kind of run, a metric has no value, or it is a smoke run.
    """
    refuse_unfit_runs([side], "a gate")
    _check_where(file, side)
    return [_evaluate(reference, side) for reference in file.references]


def _check_where(file: ReferenceFile, side: Side) -> None:
    run = side.runs[0]
    for name, wanted in file.where.items():
        found = run.facts.record.get("recipe") if name == "recipe" else getattr(run.shape, name)
        if _plain(name, found) != _plain(name, wanted):
            raise UserError(
                f"the references in {file.path} are for {name} = {wanted!r}, and {run.label} has {found!r}"
            )


def _plain(name: str, value: object) -> object:
    if name == "gpu_model" and isinstance(value, str):
        gpu = find_gpu(value)
        return value if gpu is None else gpu.name
    if name == "precision" and isinstance(value, str):
        return canonical_precision(value)
    return value


def _evaluate(reference: Reference, side: Side) -> GateResult:
    seen = side.value(reference.metric)
    if seen is None:
        raise UserError(
            f"{reference.metric} has no value in {side.name}\n  {side.why_missing(reference.metric)}"
        )
    low, high = reference.bounds
    text = f"{reference.metric} within [{_bound(low)}, {_bound(high)}] {reference.unit}"
    invalid = [run for run in side.runs if run.status == "invalid"]
    if invalid:
        why = "; ".join(invalid[0].reasons) or "see its report"
        message = f"{invalid[0].label} is invalid: {why}"
        return GateResult(gate=text, side=side.name, failed=True, message=message)
    failed = (low is not None and seen < low) or (high is not None and seen > high)
    message = (
        f"{seen:.6g} {reference.unit}, {seen / reference.value - 1:+.1%} of the reference {reference.value:g}"
    )
    return GateResult(gate=text, side=side.name, failed=failed, message=message)


def _bound(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
