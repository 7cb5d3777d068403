"""The statistics that an imported file holds, beside what its rows give, and its lists by epoch or position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evprof.export.report.parts import Badge, Block, Cell, Table, not_available

MOST_STATISTICS = 200
"""Statistics of one file that are listed; the rest is counted."""

_COUNTED_FROM_ONE = ("epoch", "run")


def statistics_table(name: str, facts: Mapping[str, Any]) -> list[Block]:
    """The file's own statistics beside what its rows, or its other numbers, give."""
    told, everything, steady = (_numbers(facts, key) for key in ("statistics", "recomputed", "without_warmup"))
    known = [key for key in told if key in everything]
    ordered = [*known, *(key for key in told if key not in everything)]
    if not ordered:
        return []
    rows = [_row(key, told[key], everything.get(key), steady.get(key)) for key in ordered[:MOST_STATISTICS]]
    source = "rows" if facts.get("runs") else "other numbers"
    agreeing = sum(_agrees(told[key], everything[key]) for key in known)
    others = len(told) - len(known)
    caption = (
        f"{name}: its own statistics, in its own units; {agreeing:,} of {len(known):,} are what its {source} give"
        + (f", {others:,} more cannot be worked out from it" if others else "")
        + (f"; the first {MOST_STATISTICS} are shown" if len(ordered) > MOST_STATISTICS else "")
    )
    heads = ("statistic", "in the file", f"from its {source}", "without warm-up and zero times")
    return [Table(heads, tuple(rows), caption=caption)]


def _row(key: str, told: float, everything: float | None, steady: float | None) -> tuple[Cell, ...]:
    first = (Cell(key), Cell(_six(told), Badge.IMPORTED))
    if everything is None:
        return (*first, not_available("(cannot be worked out from the file)"), not_available())
    tone = "" if _agrees(told, everything) else "warn"
    rest = not_available() if steady is None else Cell(_six(steady), Badge.DERIVED)
    return (*first, Cell(_six(everything), Badge.DERIVED, tone=tone), rest)


def series_table(name: str, facts: Mapping[str, Any]) -> list[Block]:
    """What a file gives step by step: ends and extremes of each list."""
    series = facts.get("series")
    values = series.get("values") if isinstance(series, dict) else None
    if not isinstance(series, dict) or not isinstance(values, dict):
        return []
    axis = str(series.get("axis", "step"))
    first = 1 if axis in _COUNTED_FROM_ONE else 0
    rows = [row for key, listed in values.items() if (row := _series_row(str(key), listed, first)) is not None]
    heads = ("list", f"{axis}s", "first", "lowest", "at", "highest", "at", "last")
    return [Table(heads, tuple(rows), caption=f"{name}: its lists by {axis}")] if rows else []


def _series_row(name: str, listed: object, first: int) -> tuple[Cell, ...] | None:
    known = [
        (place, float(value))
        for place, value in enumerate(listed if isinstance(listed, list) else [], start=first)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if not known:
        return None
    low, high = min(known, key=lambda pair: pair[1]), max(known, key=lambda pair: pair[1])

    def imported(value: float) -> Cell:
        return Cell(_six(value), Badge.IMPORTED)

    return (
        Cell(name),
        Cell(str(len(known)), Badge.IMPORTED),
        imported(known[0][1]),
        imported(low[1]),
        Cell(str(low[0])),
        imported(high[1]),
        Cell(str(high[0])),
        imported(known[-1][1]),
    )


def _numbers(facts: Mapping[str, Any], key: str) -> dict[str, float]:
    found = facts.get(key)
    if not isinstance(found, dict):
        return {}
    return {
        str(name): float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _agrees(told: float, own: float) -> bool:
    return abs(told - own) <= 1e-6 * max(abs(told), abs(own), 1e-12)


def _six(value: float) -> str:
    return f"{value:.6g}"
