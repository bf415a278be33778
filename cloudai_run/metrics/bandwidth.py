"""What the tables of nccl-tests tell of a run: two metrics, and whether they may be used."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from cloudai_run.metrics.samples import BusTable, ParsedLog, Validity

METRIC_NAMES = ("busbw_gb_per_s", "algbw_gb_per_s")


def bandwidths(tables: Sequence[BusTable]) -> tuple[dict[str, float], str | None]:
    """Returns the metrics of one collective, or why there are none.

    The bus bandwidth is the log's own average. The algorithm bandwidth is averaged in the same way: over the
    sizes, out of place and in place.
    """
    if len(tables) != 1:
        return {}, f"the log holds {len(tables)} tables: give one collective at a time"
    table = tables[0]
    if table.avg_busbw_gb_per_s is None:
        return {}, "the table has no average: it was cut before its end"
    rows = table.rows
    algorithm = [row.out_of_place_algbw_gb_per_s for row in rows]
    algorithm += [row.in_place_algbw_gb_per_s for row in rows]
    known = [value for value in algorithm if value is not None]
    averages = {"busbw_gb_per_s": table.avg_busbw_gb_per_s}
    return {**averages, **({"algbw_gb_per_s": fmean(known)} if known else {})}, None


def judge_bandwidths(log: ParsedLog, exit_code: int | None = None) -> Validity:
    """Returns whether the tables may be used: a wrong result of a collective makes its speed worthless."""
    invalid: list[str] = []
    incomplete: list[str] = []
    for table in log.tables:
        name = table.collective or "the collective"
        if table.out_of_bounds:
            invalid.append(f"{name}: {table.out_of_bounds} values out of bounds")
        if not table.rows:
            invalid.append(f"{name}: the table has no row")
        elif table.avg_busbw_gb_per_s is None:
            incomplete.append(
                f"{name}: the table ends at {table.rows[-1].size_bytes} bytes without its average"
            )
    invalid += [f"{failure.kind}: {failure.message[:120]}" for failure in log.failures if failure.fatal]
    if exit_code and not invalid:
        invalid.append(f"the stage ended with exit code {exit_code}")
    if invalid:
        return Validity("invalid", (*invalid, *incomplete))
    return Validity("incomplete" if incomplete else "valid", tuple(incomplete))
