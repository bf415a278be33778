"""Everything that one call of `compare` finds: changes, published rows, gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloudai_run.metrics.compare import Comparison, compare
from cloudai_run.metrics.compare_stats import CompareOptions
from cloudai_run.metrics.gates import Gate, GateResult, evaluate_gates
from cloudai_run.metrics.published import PublishedMatch, evaluate_published_gates, match_published
from cloudai_run.metrics.references import ReferenceFile, evaluate_references
from cloudai_run.metrics.run_data import Side


@dataclass(frozen=True, kw_only=True)
class Results:
    """What `compare` prints.

    Attributes:
        published: Each side with its published rows; empty without `--against published`.
        gates: Results of conditions and references; empty without any.
    """

    comparison: Comparison
    published: tuple[tuple[Side, PublishedMatch], ...] = ()
    gates: tuple[GateResult, ...] = ()

    @property
    def failed(self) -> bool:
        return any(gate.failed for gate in self.gates)


def compare_all(
    sides: Sequence[Side],
    *,
    options: CompareOptions | None = None,
    gates: Sequence[Gate] = (),
    references: Sequence[ReferenceFile] = (),
    against_published: bool = False,
) -> Results:
    """Compares the sides and judges the gates.

    A change is judged on each side after the first; on a side that stands alone against its published rows.
    A value and a reference are judged on each side after the first, or on the side that stands alone.

    Raises:
        UserError: A gate or a published row cannot be judged (a smoke run, a metric without a value ...).
    """
    comparison = compare(sides, options)
    published = [(side, match_published(side.runs[0])) for side in sides] if against_published else []
    alone = len(comparison.sides) == 1
    against_rows = [gate for gate in gates if alone and against_published and gate.relative]
    results = evaluate_gates([gate for gate in gates if gate not in against_rows], comparison)
    results += evaluate_published_gates(against_rows, published) if against_rows else []
    for file in references:
        for side in comparison.sides[0 if alone else 1 :]:
            results += evaluate_references(file, side)
    return Results(comparison=comparison, published=tuple(published), gates=tuple(results))
